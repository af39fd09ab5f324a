"""Measure how soon seeded bugs are caught, by the swarm and by a guided search, at equal CPU.

    python bench/hunting.py [--only NAMES] [--cpu 120] [--repeats 5] [--out hunting.jsonl]

For each repeat and each bug in turns: the swarm from a seed of its own, then a search of that seed,
until one of the invariants that the bug breaks is broken, or so many CPU seconds are used up. Each
pair of hunts is a line of JSON in the file, and one that is there is not made again, so that a
measurement of many hours goes on where it was stopped. Without ``--only`` it hunts all bugs that
the swarm of docs/zoo.jsonl was sent after. One process at a time.

Tells how many bugs each arm caught in each repeat, and how much faster the search is for the bugs
that are slow for the swarm: the geometric mean of the ratios swarm / search, a ratio for each bug,
with the interval that 95 % of the means of drawn bugs lie in. What was not caught counts as if it
had been at the end, so that a ratio is nearer to 1 than the truth.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean, median, quantiles
from typing import Any

from bench.support.figures import say, table
from harness.explore.play import Exploration
from harness.explore.starting import OURS, fitting, load
from harness.processes.crew import Local
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import Bug, bugs, found

ROWS = Path("docs") / "zoo.jsonl"
SLOW_CPU_S = 30.0
APART = 100_000  # seeds of two repeats
RESAMPLED = 2_000
HEAD = ("bug", "hunts", "swarm CPU s", "search CPU s", "swarm / search")


@dataclass(frozen=True, slots=True)
class Hunted:
    """The CPU seconds until a bug was caught, or all there were."""

    cpu_s: float
    caught: bool

    def __str__(self) -> str:
        return f"{'' if self.caught else '> '}{self.cpu_s:.1f}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The CPU time that swarm and search took for one bug in one repeat."""

    bug: str
    repeat: int
    swarm: Hunted
    search: Hunted

    @classmethod
    def parsed(cls, line: str) -> Pair:
        """Read a line of the file of results."""
        row = json.loads(line)
        arms = {arm: Hunted(**row[arm]) for arm in ("swarm", "search")}
        return cls(bug=row["bug"], repeat=row["repeat"], **arms)


def plan_of(bug: Bug, seed: int) -> Plan:
    """Make the plan of a seed of the swarm with the bug in."""
    return Plan.simulated(draw(seed, pinned(bug)), asked_for=False)


def pinned(bug: Bug) -> dict[str, Any]:
    """Give what is not drawn: the bug, and that a run ends when it is caught."""
    return {"mutant": bug.name, "stop_at": tuple(sorted(bug.breaks))}


def by_swarm(bug: Bug, first: int, cpu_s: float) -> Hunted:
    """Hunt by seeds, one after the other."""
    began_s = time.process_time()
    for seed in count(first):
        caught = bool(found(simulate(plan_of(bug, seed))) & bug.breaks)
        used_s = time.process_time() - began_s
        if caught or used_s >= cpu_s:
            return Hunted(round(used_s, 2), caught)
    raise AssertionError("seeds do not end")


def by_search(bug: Bug, first: int, cpu_s: float) -> Hunted:
    """Hunt by a search; its own time counts, too."""
    began_s, used_s = time.process_time(), 0.0
    starting = fitting(load(OURS), pinned(bug))
    search = Exploration(first, lambda seed: plan_of(bug, seed), None, Local(1), starting)

    def so_far_s() -> float:
        return round(used_s + time.process_time() - began_s, 2)

    with closing(search.rounds()) as rounds:
        for done in rounds:
            for played in done:
                used_s += played.cpu_s
                if set(played.broken) & bug.breaks:
                    return Hunted(so_far_s(), caught=True)
            if so_far_s() >= cpu_s:
                break
    return Hunted(so_far_s(), caught=False)


def hunted_before() -> Iterator[str]:
    """Name the bugs that docs/zoo.jsonl has an exploratory hunt of."""
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["arm"] == "exploratory":
            yield row["mutant"]


def ratios(pairs: Iterable[Pair]) -> dict[str, float]:
    """Give for each bug the geometric mean of swarm / search over its repeats."""
    logs: Mapping[str, list[float]] = defaultdict(list)
    for pair in pairs:
        logs[pair.bug].append(log(pair.swarm.cpu_s / pair.search.cpu_s))
    return {bug: exp(fmean(each)) for bug, each in logs.items()}


def mean_of(values: Sequence[float]) -> tuple[float, float, float]:
    """Give the geometric mean, and between what 95 % of the means of redrawn values lie."""
    rng, logs = Random(1), [log(value) for value in values]
    means = [fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLED)]
    cuts = quantiles(means, n=40)
    return exp(fmean(logs)), exp(cuts[0]), exp(cuts[-1])


def told(pairs: Sequence[Pair]) -> str:
    """Tell all hunts: a table by bug, what was caught in each repeat, and the means."""
    by_bug: Mapping[str, list[Pair]] = defaultdict(list)
    by_repeat: Mapping[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_bug[pair.bug].append(pair)
        by_repeat[pair.repeat].append(pair)
    ratio = ratios(pairs)

    def arm(name: str, of: Sequence[Pair]) -> str:
        hunts = [getattr(pair, name) for pair in of]
        missed = sum(not hunt.caught for hunt in hunts)
        spent_s = median(hunt.cpu_s for hunt in hunts)
        return f"{spent_s:.1f}" + (f" ({missed} not caught)" if missed else "")

    lines = [
        (bug, len(of), arm("swarm", of), arm("search", of), f"{ratio[bug]:.2f}")
        for bug, of in sorted(by_bug.items())
    ]
    sums = [
        f"repeat {repeat}: of {len(of)} bugs the swarm caught "
        f"{sum(pair.swarm.caught for pair in of)}, the search "
        f"{sum(pair.search.caught for pair in of)}"
        for repeat, of in sorted(by_repeat.items())
    ]
    swarm_s = {bug: median(pair.swarm.cpu_s for pair in of) for bug, of in by_bug.items()}
    slow = [ratio[bug] for bug in ratio if swarm_s[bug] >= SLOW_CPU_S]
    if len(slow) > 1:
        mean, low, high = mean_of(slow)
        sums.append(
            f"{len(slow)} bugs take the swarm {SLOW_CPU_S:g} s or more: the geometric mean of "
            f"swarm / search is {mean:.2f} (95 %: {low:.2f} to {high:.2f})"
        )
    return "\n".join([table(HEAD, lines), *sums])


def main() -> None:
    """Measure what the file does not have yet, and print all of it."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--only", help="names of bugs, with commas between them")
    parser.add_argument("--cpu", type=float, default=120.0, help="CPU seconds of a hunt")
    parser.add_argument("--repeats", type=int, default=5, help="hunts for each bug by each arm")
    parser.add_argument("--out", type=Path, default=Path("hunting.jsonl"))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else sorted(hunted_before())
    out: Path = options.out
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    pairs = [Pair.parsed(line) for line in lines]
    done = {(pair.bug, pair.repeat) for pair in pairs}
    for repeat in range(1, options.repeats + 1):
        for bug in bugs(names):
            if (bug.name, repeat) in done:
                continue
            swarm = by_swarm(bug, repeat * APART, options.cpu)
            search = by_search(bug, repeat * APART, options.cpu)
            pair = Pair(bug.name, repeat, swarm, search)
            pairs.append(pair)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(pair)) + "\n")
            say(f"{bug.name}, repeat {repeat}: swarm {swarm} s, search {search} s")
    print(told(pairs))


if __name__ == "__main__":
    main()
