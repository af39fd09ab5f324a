"""Holds every model against a textbook search on random histories of up to eight ops.

    python bench/check_random.py [--histories 1000000] [--seed 1] [--ops 8]

Registers are also searched as narrowly as can be, so that windows and widening are tried. Prints
how many histories there were of each model and verdict; exits 1 at the first judged wrong.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from random import Random
from typing import Any

from checkers.linearizability import registers as linearizable_registers
from checkers.linearizable import check_history
from checkers.models.isr import Isr
from checkers.models.lists import ListAppend, Log
from checkers.models.multi_registers import MultiRegister
from checkers.models.mutex import Mutex
from checkers.models.producer_ids import ProducerIds
from checkers.models.registers import CasRegister, Register
from checkers.models.sets import Set
from checkers.models.strings import KvAppend
from checkers.models.topics import Topic
from harness.contracts.model import Model
from harness.history.formats import Conventions
from tests.support.linearizability.brute import Spec, random_history, textbook

VALUES = (None, 1, 2)
LOST = ("ok", "info")
TEXTS = ("", "a", "b", "ab", "ba", "aa", "aba")
LISTS: tuple[list[int], ...] = ([], [1], [2], [1, 2], [2, 1], [1, 2, 3])
TOPICS = (("a", 1), ("b", 2))
ISRS: tuple[tuple[int, list[int]], ...] = ((0, []), (1, [1]), (1, [2]), (2, [1]), (2, [1, 2]))
READS: list[Spec] = [("read", None, v, "ok") for v in VALUES]
WRITES: list[Spec] = [("write", v, None, o) for v in VALUES for o in LOST]
ALPHABETS: dict[str, tuple[Model, list[Spec]]] = {
    "register": (Register(), [*READS, *WRITES]),
    "cas-register": (
        CasRegister(),
        [
            *READS,
            *WRITES,
            *(("cas", [a, b], [a, b], o) for a in VALUES for b in VALUES for o in (*LOST, "fail")),
        ],
    ),
    "kv-append": (
        KvAppend(),
        [
            *(("get", None, v, "ok") for v in TEXTS),
            *(("put", v, None, o) for v in ("", "a") for o in LOST),
            *(("append", v, None, o) for v in ("a", "b") for o in LOST),
        ],
    ),
    "set": (
        Set(),
        [
            *(("read", None, v, "ok") for v in ([], [1], [2], [2, 1])),
            *((f, v, None, o) for f in ("add", "remove") for v in (1, 2) for o in LOST),
        ],
    ),
    "mutex": (Mutex(), [(f, None, None, o) for f in ("acquire", "release") for o in LOST]),
    "list": (
        ListAppend(),
        [
            *(("read", None, v, "ok") for v in LISTS),
            *(("append", v, None, o) for v in (1, 2, 3) for o in LOST),
        ],
    ),
    "log": (
        Log(),
        [
            *(("read", None, v, "ok") for v in LISTS),
            *(("append", v, at, "ok") for v in (1, 2, 3) for at in (0, 1, 2)),
            *(("append", v, None, "info") for v in (1, 2)),
        ],
    ),
    "multi-register": (
        MultiRegister(),
        [
            ("txn", step, step, o)
            for step in (
                [["w", "x", 1]],
                [["w", "y", 1]],
                [["w", "x", 2], ["w", "y", 2]],
                [["r", "x", 1], ["r", "y", 1]],
                [["r", "x", None]],
                [["r", "x", 2], ["w", "y", None]],
                [["r", "y", 2]],
            )
            for o in LOST
        ],
    ),
    "producer-ids": (
        ProducerIds(),
        [("allocate", None, [first, n], o) for first in range(4) for n in (1, 2) for o in LOST],
    ),
    "topics": (
        Topic(frozenset(("c", "d"))),
        [
            *(("create", {"partitions": n}, {"partitions": n, "id": i}, "ok") for i, n in TOPICS),
            *(("create", {"partitions": n}, None, "info") for n in (1, 2)),
            *(("delete", None, None, o) for o in LOST),
            *(("describe", None, {"partitions": n, "id": i}, "ok") for i, n in TOPICS),
            *(("describe", None, {"partitions": n, "id": "c"}, "ok") for n in (1, 2)),
            ("describe", None, None, "ok"),
        ],
    ),
    "isr": (
        Isr(),
        [
            *(("read", None, [e, m], "ok") for e, m in ISRS),
            *(
                ("alter", [e, m], [e, m], o)
                for e in (0, 1)
                for m in ([1], [2])
                for o in (*LOST, "fail")
            ),
        ],
    ),
}
ANSWERED = frozenset(("read", "get", "txn", "allocate", "alter", "cas", "create", "describe"))
PLACED = ANSWERED | {"append"}  # the appends of a log tell their positions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--histories", type=int, default=1_000_000, help="of each model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", type=int, default=8)
    parser.add_argument("--model", choices=sorted(ALPHABETS), action="append")
    arguments = parser.parse_args()
    wide = linearizable_registers.WIDTHS
    counts: Counter[str] = Counter()
    for name in arguments.model or ALPHABETS:
        model, specs = ALPHABETS[name]
        rules = Conventions(initial=model.initial, failed_cas="observation")
        rng = Random(arguments.seed)
        for at in range(arguments.histories):
            linearizable_registers.WIDTHS = (1, 2, None) if at % 2 else wide
            some: list[Any] = rng.sample(specs, min(len(specs), rng.randint(2, 8)))
            n = rng.randint(1, arguments.ops)
            told = PLACED if name == "log" else ANSWERED
            history = random_history(rng, n, some, rng.randint(1, 6), answered=told)
            expected = textbook(history, model, rules)
            found = check_history(history, model, conventions=rules)
            counts[f"{name}, {found.valid}"] += 1
            if (str(found.valid) == "valid") is not expected and found.checked["linearizability"]:
                raise SystemExit(f"{name}: judged {found.valid}: {list(history)}")
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
