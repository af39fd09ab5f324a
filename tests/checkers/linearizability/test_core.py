"""The ops that an explanation names contradict each other alone, and none can be left out."""

from __future__ import annotations

import json
import os
from itertools import product
from random import Random
from typing import Any

import pytest

from checkers.linearizable import check_file, check_history
from checkers.models.isr import Isr
from checkers.models.lists import ListAppend, Log
from checkers.models.multi_registers import MultiRegister
from checkers.models.mutex import Mutex
from checkers.models.producer_ids import ProducerIds
from checkers.models.registers import CasRegister, Register
from checkers.models.sets import Set
from checkers.models.strings import KvAppend
from harness.contracts.model import Model, Partitions
from harness.history.formats import Conventions, read_history
from harness.history.ops import History, Op
from harness.registry import models
from harness.verdict import Anomaly, Valid
from tests.support.linearizability.brute import LOOKS, Spec, random_history
from tests.support.places import CORPORA

INVALID = int(os.environ.get("KRUCIBLE_EXPLAINED", "300"))  # histories of each model
BOTH = ("ok", "info")
LISTS = [list(items) for n in range(4) for items in product((1, 2, 3), repeat=n)]
BOTH_NIL: dict[str, Any] = {"x": None, "y": None}
COMPARES = Conventions(failed_cas="observation")
ALPHABETS: dict[str, tuple[Model, Conventions, list[Spec]]] = {
    "register": (
        Register(),
        Conventions(),
        [
            *(("read", None, v, "ok") for v in (None, 1, 2, 3)),
            *(("write", v, None, o) for v in (1, 2, 3) for o in BOTH),
        ],
    ),
    "cas-register": (
        CasRegister(),
        COMPARES,
        [
            *(("read", None, v, "ok") for v in (None, 1, 2)),
            *(("write", v, None, o) for v in (1, 2) for o in BOTH),
            *(("cas", [a, b], None, o) for a in (1, 2) for b in (1, 2) for o in (*BOTH, "fail")),
        ],
    ),
    "kv-append": (
        KvAppend(),
        Conventions(initial=""),
        [
            *(("get", None, v, "ok") for v in ("", "a", "b", "ab", "ba", "abc")),
            *(("append", v, None, o) for v in ("a", "b", "c") for o in BOTH),
            ("put", "", None, "ok"),
        ],
    ),
    "set": (
        Set(),
        Conventions(initial=()),
        [
            *(("read", None, v, "ok") for v in ([], [1], [2], [2, 1])),
            *((f, v, None, o) for f in ("add", "remove") for v in (1, 2) for o in BOTH),
        ],
    ),
    "mutex": (
        Mutex(),
        Conventions(initial=False),
        [(f, None, None, o) for f in ("acquire", "release") for o in BOTH],
    ),
    "list": (
        ListAppend(),
        Conventions(initial=()),
        [
            *(("read", None, v, "ok") for v in LISTS),
            *(("append", v, None, o) for v in (1, 2, 3) for o in BOTH for _ in range(4)),
        ],
    ),
    "log": (
        Log(),
        Conventions(initial=()),
        [
            *(("read", None, v, "ok") for v in LISTS[:13]),
            *(("append", v, at, o) for v in (1, 2) for at in (0, 1, 2) for o in BOTH),
        ],
    ),
    "multi-register": (
        MultiRegister(),
        Conventions(),
        [
            *(("read", BOTH_NIL, {"x": x, "y": y}, "ok") for x in (None, 1, 2) for y in (None, 1)),
            *(("write", {key: v}, None, o) for key in "xy" for v in (1, 2) for o in BOTH),
            ("write", {"x": 2, "y": 1}, None, "ok"),
        ],
    ),
    "isr": (
        Isr(),
        COMPARES,
        [
            *(("read", None, [epoch, [1] * (epoch > 1)], "ok") for epoch in (0, 1, 2)),
            *(("alter", [epoch, [1]], None, o) for epoch in (0, 1, 2) for o in (*BOTH, "fail")),
        ],
    ),
    "producer-ids": (
        ProducerIds(),
        Conventions(),
        [("allocate", None, [first, 10], o) for first in (0, 10, 20, 30) for o in BOTH],
    ),
}
ANSWERED = {"log": LOOKS | {"append"}, "producer-ids": frozenset(("allocate",))}


def assert_contradict(
    anomaly: Anomaly, history: History, model: Model, conventions: Conventions
) -> bool:
    """The ops of an anomaly are invalid alone, and valid where one is left out; whether minimal."""

    def judge(ops: list[Op]) -> Valid:
        return check_history(History(ops), model, conventions=conventions).valid

    named = [op for op in history if op.index in set(anomaly.ops)]
    assert judge(named) is Valid.INVALID, anomaly
    if not anomaly.details["minimal"]:
        return False
    for out in [op for op in named if op.type == "invoke"]:
        kept = [op for op in named if _invocation(op, history) != out.index]
        assert judge([*_set_free(history, kept, model, anomaly), *kept]) is not Valid.INVALID, (
            anomaly.message,
            out,
        )
    return True


def _invocation(op: Op, history: History) -> int | None:
    """The index of the invocation that an op completes."""
    if op.type == "invoke":
        return op.index
    earlier = [o for o in history if o.process == op.process and o.index < op.index]
    return max(o.index for o in earlier if o.type == "invoke")


def _set_free(history: History, kept: list[Op], model: Model, anomaly: Anomaly) -> list[Op]:
    """All other ops of the same key, begun before everything, of unknown outcome."""
    here = {op.index for op in kept}

    def key(op: Op) -> Any:
        return model.partition(op) if isinstance(model, Partitions) else op.key

    others = [
        interval.invocation
        for interval in history.intervals()
        if interval.invocation.index not in here
        and interval.outcome != "fail"
        and key(interval.invocation) == anomaly.details["key"]
    ]
    return [
        Op(-1 - n, -1 - n, 10_000 + n, "invoke", op.f, op.value, key=op.key)
        for n, op in reversed(list(enumerate(others)))
    ]


@pytest.mark.parametrize("name", ALPHABETS)
def test_ops_that_contradict_do_so_alone_and_none_of_them_can_be_left_out(name: str) -> None:
    model, conventions, specs = ALPHABETS[name]
    rng, seen = Random(name), 0
    for _ in range(50 * INVALID):
        n = rng.randint(3, 14)
        answered = ANSWERED.get(name, LOOKS)
        history = random_history(rng, n, specs, rng.randint(1, 4), answered=answered)
        result = check_history(history, model, conventions=conventions)
        if result.valid is not Valid.INVALID:
            continue
        seen += 1
        (anomaly,) = result.anomalies
        assert assert_contradict(anomaly, history, model, conventions)
        if seen == INVALID:
            break
    assert seen == INVALID, f"{seen} invalid histories drawn"


INDEX = CORPORA / "verdicts.json"
VERDICTS = json.loads(INDEX.read_text()) if INDEX.is_file() else {}


@pytest.mark.parametrize("name", sorted(n for n, told in VERDICTS.items() if not told["valid"]))
def test_public_histories_are_explained_with_ops_that_contradict(name: str) -> None:
    loaded, model = read_history(CORPORA / name), models.get(VERDICTS[name]["model"])()
    result = check_file(CORPORA / name, model=VERDICTS[name]["model"])
    minimal = [
        assert_contradict(anomaly, loaded.history, model, loaded.conventions)
        for anomaly in result.anomalies
    ]
    assert any(minimal)


def test_a_stale_get_is_named_with_what_it_contradicts() -> None:
    """The three ops that were named once are valid alone; the get behind them is what is wrong."""
    path = CORPORA / "porcupine" / "kv" / "c01-bad.txt"
    if not path.is_file():
        pytest.skip(f"no corpora at {CORPORA}")
    (anomaly,) = check_file(path, model="kv-append").anomalies
    assert "get -> 'x 0 0 y' (op 58, process 0) cannot be linearized" in anomaly.message
    assert "ops 54 and 58 contradict each other" in anomaly.message
