"""Measure how many machine-made bugs of the node the swarm catches: bugs that nobody chose.

    python bench/mutation.py [--draw 300] [--seed 1] [--budget 120] [--jobs 2] [--out FILE]

Small changes of ``node`` are drawn (``bench/support/mutations.py``), each in a process of its own.
The unchanged node must be valid in all seeds that can be reached, or nothing could be said of
changed ones. A changed one must pass a run of 10 s without faults; then the generic swarm has
``--budget`` seconds of CPU time to find the change. Outcomes that count: caught, with the invariant
and the seed; survived; unreached (no seed came to the place); broken (the harness failed, which is
a bug of ours); hung (a seed did not end). Not counted: dead (the run without faults failed), same
(the place was reached, and all bytes of that run and of the first seeds are the unchanged node's),
real (no simulated node runs that file, so it is not played). A line of JSON for each goes to
``--out``; a file that is there already is continued. What was not caught is listed, to be read:
each is equivalent, or a hole.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from bench.support import hunts
from bench.support.figures import say
from bench.support.mutations import Mutation, draw, mutations, plant

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


def all_mutations() -> list[Mutation]:
    """Give all mutations of the folders of the node, in a fixed order."""
    return [
        mutation
        for folder in MUTATED
        for path in sorted((ROOT / "node" / folder).rglob("*.py"))
        if (file := str(path.relative_to(ROOT))) not in SIMULATED
        for mutation in mutations(file, path.read_text(encoding="utf-8"))
    ]


def in_a_process(
    mutation: Mutation | None, same: Mapping[str, str], budget_s: float
) -> dict[str, Any]:
    """Hunt in a new process, which may die or never end."""
    order = {"mutation": mutation and mutation.to_json(), "same": same, "budget_s": budget_s}
    cpu_s = int(CONTROL * budget_s) + HUNG_AFTER_S
    outcome, why = hunts.in_a_process("bench.mutation", order, cpu_s)
    if outcome is None:
        raise RuntimeError(f"{mutation}: {why}")
    return outcome


def one() -> None:
    """Do what an order on stdin says, and print the outcome."""
    order = json.load(sys.stdin)
    if order["mutation"] is not None:
        plant(Mutation(**order["mutation"]), ROOT)
    hunting = import_module("bench.support.hunting")  # not before: it imports the node
    if order["mutation"] is None:
        alarm = hunting.control(CONTROL * order["budget_s"])
        print(json.dumps({**hunting.hashes(), "alarm": alarm}))
    else:
        print(json.dumps(hunting.hunt(order["same"], order["budget_s"])))


def play(arguments: argparse.Namespace) -> None:
    """Hunt mutations until as many count as were asked for."""
    rows = hunts.stored(arguments.out)
    seen = {name_of(row) for row in rows}
    everything = all_mutations()
    say(f"{len(everything):,} mutations of {len(MUTATED)} folders of node")
    same = in_a_process(None, {}, arguments.budget)
    if "calm" not in same:
        sys.exit(f"the unchanged node could not be simulated: {same}")
    if (alarm := same.pop("alarm")) is not None:
        sys.exit(f"the unchanged node is caught, so nothing can be said of changed ones: {alarm}")
    drawn = draw(everything, Random(f"mutation {arguments.seed}"))
    hunts.play(
        (each for each in drawn if str(each) not in seen),
        lambda mutation: (
            {"outcome": "real"}
            if mutation.file in REAL
            else in_a_process(mutation, same, arguments.budget)
        ),
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
