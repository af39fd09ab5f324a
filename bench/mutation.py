"""Measure how many machine-made bugs of the node a search catches: bugs that nobody chose.

    python bench/mutation.py [--draw 300] [--seed 1] [--budget 120] [--by explore] [--out FILE]

Small changes of ``node`` are drawn (``bench/support/mutations.py``), each in a process of its own.
The unchanged node must be valid in all runs that can be reached, or nothing could be said of
changed ones. A changed one must pass a run of 10 s without faults; then the runs with which
``krucible explore --seed 1`` begins, or seeds of the swarm, have ``--budget`` seconds of CPU time
to find the change. A run in which the unchanged node does not come to the place is as it was: it is
not played again, but its time counts.

Outcomes that count: caught, with the invariant and the run; survived; unreached (no run came to
the place); broken (the harness failed, which is a bug of ours); hung (a run did not end). Not
counted: dead (the run without faults failed), same (the place was reached, and that run and the
first six runs that come there are the unchanged node's to the byte), real (no simulated node runs
that file, so it is not played). A line of JSON for each goes to ``--out``; a file that is there
already is continued. What was not caught is listed, to be read: each is equivalent, or a hole.

The controller that C17 asks what is due stays unchanged, as it is where it judges Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from bench.support import hunts, reference
from bench.support.figures import say
from bench.support.mutations import Mutation, draw, mutations, plant
from bench.support.reach import Lines, Played, Source, lines, reaching

ROOT = Path(__file__).resolve().parent.parent
MUTATED = ("core", "log", "controller", "broker", "driver")  # folders of node
SIMULATED = frozenset({"node/log/memory_disk.py"})  # the simulator's disk is no part of a node
# Real sides of seams, which the tests of real processes run, and what checkers run (C17).
REAL = frozenset(
    {
        *("node/log/disk.py", "node/driver/process.py", "node/driver/garbage.py"),
        *("node/driver/turns.py", "node/driver/answering.py"),
    }
)
COUNTED = ("caught", "survived", "unreached", "broken", "hung")
HUNG_AFTER_S = 60  # of CPU beyond the budget
CONTROL = 1.5  # of the budget is played on the unchanged node: no mutation gets that far
COVERED = 6  # times as slow is the node while its lines are noted, at most


def all_mutations() -> list[Mutation]:
    """Give all mutations of the folders of the node, in a fixed order."""
    return [
        mutation
        for folder in MUTATED
        for path in sorted((ROOT / "node" / folder).rglob("*.py"))
        if (file := str(path.relative_to(ROOT))) not in SIMULATED
        for mutation in mutations(file, path.read_text(encoding="utf-8"))
    ]


def in_a_process(order: Mapping[str, Any], cpu_s: float) -> dict[str, Any]:
    """Follow an order in a new process, which may die or never end."""
    outcome, why = hunts.in_a_process("bench.mutation", order, int(cpu_s))
    if outcome is None:
        raise RuntimeError(f"{order.get('mutation', order)}: {why}")
    return outcome


def one() -> None:
    """Do what an order on stdin says, and print the outcome."""
    order = json.load(sys.stdin)
    if "cover" not in order:  # or lines would count that only a checker comes to
        reference.keep()
    if (mutation := order.get("mutation")) is not None:
        plant(Mutation(**mutation), ROOT)
    if "cover" in order:
        play_one = partial(_play, by=order["by"])
        print(json.dumps(lines(play_one, range(order["cover"]), ROOT)))
        return
    hunting = import_module("bench.support.hunting")  # not before: it imports the node
    if mutation is None:
        print(json.dumps(hunting.control(order["budget_s"], order["by"])))
    else:
        known = [Played(**each) for each in order["known"]]
        print(json.dumps(hunting.hunt(known, order["budget_s"], order["by"])))


def _play(number: int, by: str) -> None:
    """Play a simulation; the first one imports the node."""
    import_module("bench.support.hunting").play(number, by)


class Hunt:
    """Hunts mutations by what is known of the unchanged node; SystemExit where that fails."""

    def __init__(self, budget_s: float, by: str) -> None:
        self._by = by
        control_s = CONTROL * budget_s
        done = in_a_process({"budget_s": control_s, "by": by}, control_s + HUNG_AFTER_S)
        if "runs" not in done:
            sys.exit(f"the unchanged node could not be simulated: {done}")
        if done["alarm"] is not None:
            told = f"so nothing can be said of changed ones: {done['alarm']}"
            sys.exit(f"the unchanged node is caught, {told}")
        self._budget_s = budget_s
        self._runs: list[tuple[float, str]] = [tuple(each) for each in done["runs"]]
        order = {"cover": len(self._runs), "by": by}
        self._lines: Lines = in_a_process(order, COVERED * control_s + HUNG_AFTER_S)

    def __call__(self, mutation: Mutation) -> dict[str, Any]:
        """Hunt a mutation in a process of its own; its outcome."""
        if mutation.file in REAL:
            return {"outcome": "real"}
        source = Source.of((ROOT / mutation.file).read_text(encoding="utf-8"))
        known = Played.of_all(self._runs, reaching(mutation, source, self._lines))
        order = {
            "mutation": mutation.to_json(),
            "known": [asdict(each) for each in known],
            "budget_s": self._budget_s,
            "by": self._by,
        }
        return in_a_process(order, CONTROL * self._budget_s + HUNG_AFTER_S)


def play(arguments: argparse.Namespace) -> None:
    """Hunt mutations until as many count as were asked for."""
    rows = hunts.stored(arguments.out)
    seen = {name_of(row) for row in rows}
    everything = all_mutations()
    say(f"{len(everything):,} mutations of {len(MUTATED)} folders of node")
    drawn = draw(everything, Random(f"mutation {arguments.seed}"))
    hunts.play(
        (each for each in drawn if str(each) not in seen),
        Hunt(arguments.budget, arguments.by),
        rows,
        arguments.out,
        is_enough=lambda found: hunts.counted(found, COUNTED) >= arguments.draw,
        jobs=arguments.jobs,
    )
    print(hunts.report(rows, COUNTED, ("dead", "same", "real"), name_of))


def name_of(row: Mapping[str, Any]) -> str:
    """Give the name of a row's mutation."""
    return str(Mutation(**row["mutation"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=int, default=300, help="mutations that count")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--budget", type=float, default=120.0, help="CPU seconds a mutation")
    parser.add_argument("--by", choices=("explore", "swarm"), default="explore")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("mutation.jsonl"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one()
    else:
        play(arguments)


if __name__ == "__main__":
    main()
