"""Measure how soon seeded bugs are caught, by the swarm and by a guided search, at equal CPU.

    python bench/hunting.py --only unflushed-leader,reborn-voter [--cpu 300] [--repeats 3]

For each bug and each repeat in turns: the swarm from a seed of its own, then a search of that seed,
until one of the invariants that the bug breaks is broken, or so many CPU seconds are used up. Tells
the CPU seconds of each, ``>`` where it was not caught, and at the end the geometric mean of the
ratios swarm / search; what was not caught counts as if it had been at the end, so that the mean is
nearer to 1 than the truth. One process at a time; without ``--only`` it takes the bugs that the
swarm of docs/zoo.jsonl took 60 CPU seconds or more for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from math import exp, log
from pathlib import Path

from bench.support.figures import say, table
from harness.explore.play import Exploration
from harness.processes.crew import Local
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import Bug, bugs, found

ROWS = Path("docs") / "zoo.jsonl"
SLOW_CPU_S = 60.0
APART = 100_000  # seeds of two repeats
HEAD = ("bug", "repeat", "swarm CPU s", "search CPU s", "swarm / search")


@dataclass(frozen=True, slots=True)
class Hunted:
    """The CPU seconds until a bug was caught, or all there were."""

    cpu_s: float
    caught: bool

    def __str__(self) -> str:
        return f"{'' if self.caught else '> '}{self.cpu_s:.1f}"


def plan_of(bug: Bug, seed: int) -> Plan:
    """The plan of a seed of the swarm with the bug in."""
    pinned = {"mutant": bug.name, "stop_at": tuple(sorted(bug.breaks))}
    return Plan.simulated(draw(seed, pinned), asked_for=False)


def by_swarm(bug: Bug, first: int, cpu_s: float) -> Hunted:
    """Hunt by seeds, one after the other."""
    began_s = time.process_time()
    for seed in count(first):
        caught = bool(found(simulate(plan_of(bug, seed))) & bug.breaks)
        used_s = time.process_time() - began_s
        if caught or used_s >= cpu_s:
            return Hunted(used_s, caught)
    raise AssertionError("seeds do not end")


def by_search(bug: Bug, first: int, cpu_s: float) -> Hunted:
    """Hunt by a search; its own time counts, too."""
    began_s, used_s = time.process_time(), 0.0
    search = Exploration(first, lambda seed: plan_of(bug, seed), None, Local(1))
    with closing(search.rounds()) as rounds:
        for done in rounds:
            for played in done:
                used_s += played.cpu_s
                if set(played.broken) & bug.breaks:
                    return Hunted(used_s + time.process_time() - began_s, caught=True)
            if used_s + time.process_time() - began_s >= cpu_s:
                break
    return Hunted(used_s + time.process_time() - began_s, caught=False)


def slow() -> Iterator[str]:
    """Name the bugs that the swarm was slow to catch, or did not, when the zoo was measured."""
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["arm"] == "exploratory" and row["cpu_s"] >= SLOW_CPU_S:
            yield row["mutant"]


def told(found_by: Sequence[tuple[str, int, Hunted, Hunted]]) -> str:
    """All hunts as a table, with the mean of their ratios."""
    rows = [
        (name, repeat, swarm, search, f"{swarm.cpu_s / search.cpu_s:.2f}")
        for name, repeat, swarm, search in found_by
    ]
    logs = [log(swarm.cpu_s / search.cpu_s) for _, _, swarm, search in found_by]
    mean = exp(sum(logs) / len(logs))
    caught = [sum(hunts[arm].caught for _, _, *hunts in found_by) for arm in (0, 1)]
    return (
        f"{table(HEAD, rows)}\nof {len(rows)} hunts the swarm caught {caught[0]}, the search "
        f"{caught[1]}; geometric mean of swarm / search {mean:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--only", help="names of bugs, with commas between them")
    parser.add_argument("--cpu", type=float, default=300.0, help="CPU seconds of a hunt")
    parser.add_argument("--repeats", type=int, default=3, help="hunts for each bug by each arm")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(slow())
    done = []
    for bug in bugs(names):
        for repeat in range(1, options.repeats + 1):
            swarm = by_swarm(bug, repeat * APART, options.cpu)
            search = by_search(bug, repeat * APART, options.cpu)
            done.append((bug.name, repeat, swarm, search))
            say(f"{bug.name}, repeat {repeat}: swarm {swarm} s, search {search} s")
    say(told(done))


if __name__ == "__main__":
    main()
