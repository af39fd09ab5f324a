"""The ops to draw histories from, for every built-in model: few values, all outcomes."""

from __future__ import annotations

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
from tests.support.linearizability.brute import Spec

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
