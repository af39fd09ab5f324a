"""Holds the checker for registers against brute force on every history of up to five ops.

    python bench/check_exhaustive.py [--ops 5] [--model register] [--part 1/1] [--narrow]

Each is judged as a check would, and by both searches. ``--part 2/8`` does the second eighth.
``--narrow`` begins with the narrowest of searches, so that windows and widening are tried too.
Prints how many histories there were; exits 1 at the first that is judged wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from checkers.limits.budget import Budget
from checkers.linearizability import registers as linearizable_registers
from checkers.linearizability.methods import judge_register
from checkers.linearizability.registers import search_register
from tests.support.linearizability.exhaustive import by_every_order, histories

EVERY = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ops", type=int, default=5)
    parser.add_argument("--model", choices=("register", "cas-register"), default="register")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--narrow", action="store_true")
    arguments = parser.parse_args()
    part, parts = (int(number) for number in arguments.part.split("/"))
    if arguments.narrow:
        linearizable_registers.WIDTHS = (1, 2, None)
        linearizable_registers.WINDOW_MIN = 1
    counts: Counter[str] = Counter()
    budget = Budget.of(float("inf"))
    for n in range(1, arguments.ops + 1):
        for at, columns in enumerate(histories(n, cas=arguments.model == "cas-register")):
            if at % parts != part - 1:
                continue
            method, found = judge_register(columns, None, budget)
            expected = by_every_order(columns)
            counts[f"{n} ops, {method}, {'valid' if expected else 'invalid'}"] += 1
            every = (found, search_register(columns, None, budget))
            if any(one.linearizable is not expected for one in every):
                raise SystemExit(f"judged {every}, is {expected}: {columns}")
            if at % EVERY == EVERY - 1:
                print(f"{n} ops: {at + 1} histories", file=sys.stderr, flush=True)
    total = sum(counts.values())
    print(json.dumps({"model": arguments.model, "histories": total, **counts}))


if __name__ == "__main__":
    main()
