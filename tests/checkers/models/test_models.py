"""Models keep the promises that the search relies on, and say what they mean."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from checkers.models.isr import Isr
from checkers.models.lists import ListAppend, Log
from checkers.models.multi_registers import MultiRegister
from checkers.models.mutex import Mutex
from checkers.models.producer_ids import ProducerIds
from checkers.models.registers import CasRegister, Register
from checkers.models.sets import Set
from checkers.models.strings import KvAppend
from checkers.models.topics import Topic
from harness.contracts.model import ILLEGAL, Action, Foresees, Model, freeze, show, thaw
from harness.history.formats import Conventions
from harness.history.ops import Interval, Op
from harness.registry import models

TOPIC = {"partitions": 1, "configs": {"a": "1"}}
MADE = {**TOPIC, "id": "x"}
OPS: list[tuple[Model, list[tuple[str, Any, Any]]]] = [  # f, argument, answer
    (Register(), [("read", None, None), ("read", None, 1), ("write", 1, 1), ("write", 2, 2)]),
    (
        CasRegister(),
        [("read", None, 1), ("write", 1, 1), ("cas", [1, 2], None), ("cas", [1, 1], None)],
    ),
    (KvAppend(), [("get", None, "a"), ("put", "a", None), ("append", "b", None)]),
    (Set(), [("read", None, [1]), ("add", 1, None), ("add", 2, None), ("remove", 1, None)]),
    (ListAppend(), [("read", None, [1]), ("append", 1, None), ("append", 2, None)]),
    (Log(), [("read", None, [1]), ("append", 1, 0), ("append", 2, None), ("append", 2, 1)]),
    (
        MultiRegister(),
        [
            ("read", {"x": None}, {"x": 1}),
            ("write", {"x": 1, "y": 2}, None),
            ("txn", [["r", "x", None], ["w", "y", 3]], [["r", "x", 1], ["w", "y", 3]]),
        ],
    ),
    (ProducerIds(), [("allocate", None, [0, 2]), ("allocate", None, [1, 2])]),
    (Isr(), [("alter", [0, [1, 2]], [0, [1, 2]]), ("read", None, [1, [2, 1]])]),
    (Mutex(), [("acquire", None, None), ("release", None, None)]),
    (
        Topic(),
        [
            ("create", TOPIC, {**TOPIC, "id": "x"}),
            ("delete", None, None),
            ("describe", None, None),
            ("describe", None, {**TOPIC, "id": "x"}),
        ],
    ),
]


def interval(
    f: str, argument: Any, answer: Any, outcome: Any = "ok", error: Any = None
) -> Interval:
    return Interval(
        Op(0, 0, 0, "invoke", f, argument), Op(1, 1, 0, outcome, f, answer, error=error)
    )


def actions(model: Model, ops: list[tuple[str, Any, Any]]) -> list[Action]:
    rules = Conventions(failed_cas="observation")
    intervals = [interval(*one, outcome) for one in ops for outcome in ("ok", "info", "fail")]
    errors = ("topic-already-exists", "unknown-topic")
    intervals += [interval(*one, "fail", error) for one in ops for error in errors]
    found = [model.action(one, rules) for one in intervals]
    return [action for action in found if action is not None]


def reachable(model: Model, known: list[Action]) -> list[Any]:
    states = [model.start(model.initial)]
    for _ in range(3):
        for state, action in product(list(states), known):
            to = model.step(state, action)
            if to is not ILLEGAL and to not in states:
                states.append(to)
    return states


@pytest.mark.parametrize(("model", "ops"), OPS, ids=lambda one: type(one).__name__)
def test_promises(model: Model, ops: list[tuple[str, Any, Any]]) -> None:
    known = actions(model, ops)
    states = reachable(model, known)

    assert {op[0] for op in ops} == model.fs
    for action in known:
        after = [model.step(state, action) for state in states]
        assert after == [model.step(state, action) for state in states], "steps are pure"
        if action.observes:
            assert all(to in (state, ILLEGAL) for state, to in zip(states, after, strict=True))
        if action.total:
            assert ILLEGAL not in after
        if action.blind:
            assert len(set(after)) == 1
        assert model.describe(action)
        assert all(
            model.obstacle(state, action)
            for state, to in zip(states, after, strict=True)
            if to is ILLEGAL
        )
    assert len(model.useful(known, known)) == len(known)


@pytest.mark.parametrize(
    ("model", "ops", "legal"),
    [
        (Register(), [("read", None, None), ("write", 1, 1), ("read", None, 1)], True),
        (Register(), [("write", 1, 1), ("write", 2, 2), ("read", None, 1)], False),
        (CasRegister(), [("write", 1, 1), ("cas", [1, 2], [1, 2]), ("read", None, 2)], True),
        (CasRegister(), [("write", 1, 1), ("cas", [2, 3], [2, 3])], False),
        (CasRegister(), [("write", 1, 1), ("cas", [1, 2], [1, 2]), ("read", None, 1)], False),
        (KvAppend(), [("put", "a", "a"), ("append", "b", "b"), ("get", None, "ab")], True),
        (KvAppend(), [("append", "b", "b"), ("put", "a", "a"), ("get", None, "ba")], False),
        (Set(), [("add", 1, 1), ("add", 2, 2), ("remove", 1, 1), ("read", None, [2])], True),
        (Set(), [("add", 1, 1), ("remove", 1, 1), ("read", None, [1])], False),
        (Set(), [("add", 1, 1), ("add", 1, 1), ("remove", 1, 1), ("read", None, [])], True),
        (Set(), [("remove", 1, 1), ("add", 1, 1), ("read", None, [])], False),
        (Mutex(), [("acquire", None, None), ("release", None, None)] * 2, True),
        (Mutex(), [("acquire", None, None)] * 2, False),
        (Mutex(), [("release", None, None)], False),
        (ListAppend(), [("append", 2, 2), ("append", 1, 1), ("read", None, [2, 1])], True),
        (ListAppend(), [("append", 2, 2), ("append", 1, 1), ("read", None, [1, 2])], False),
        (Log(), [("append", 5, 0), ("append", 5, 1), ("read", None, [5, 5])], True),
        (Log(), [("append", 5, 1)], False),
        (Log(), [("append", 5, 0), ("read", None, [5, 5])], False),
        (MultiRegister(), [("write", {"x": 1}, None), ("read", {"y": None}, {"y": None})], True),
        (MultiRegister(), [("write", {"x": 1}, None), ("read", {"x": None}, {"x": None})], False),
        (ProducerIds(), [("allocate", None, [0, 2]), ("allocate", None, [2, 2])], True),
        (ProducerIds(), [("allocate", None, [2, 2]), ("allocate", None, [0, 2])], False),
        (ProducerIds(), [("allocate", None, [0, 2]), ("allocate", None, [1, 2])], False),
        (Isr(), [("alter", [0, [1]], [1, [1]]), ("read", None, [1, [1]])], True),
        (Isr(), [("alter", [0, [1]], [1, [1]]), ("alter", [0, [2]], [1, [2]])], False),
        (
            Topic(),
            [("create", TOPIC, MADE), ("describe", None, MADE), ("delete", None, None)],
            True,
        ),
        (
            Topic(),
            [("create", TOPIC, MADE), ("delete", None, None), ("describe", None, MADE)],
            False,
        ),
    ],
)
def test_ops_one_after_the_other(
    model: Model, ops: list[tuple[str, Any, Any]], legal: bool
) -> None:
    state = model.start(model.initial)
    for one in ops:
        assert state is not ILLEGAL, "only the last may be illegal"
        action = model.action(interval(*one), Conventions())
        assert action is not None
        state = model.step(state, action)

    assert (state is not ILLEGAL) is legal


@pytest.mark.parametrize(
    "value", [None, True, 1, 1.5, "a", [1, [True]], {"a": {"b": None}}, ["bool", True], []]
)
def test_frozen_values_thaw(value: Any) -> None:
    frozen = freeze(value)

    assert hash(frozen) is not None
    assert thaw(frozen) == value


def test_frozen_values_are_equal_as_json_is() -> None:
    values = [None, True, 1, "1", [1], ["list", 1], {"1": 1}, [["1", 1]], "nan", float("nan")]

    assert len({freeze(value) for value in values}) == len(values)
    assert freeze(float("nan")) == freeze(float("nan"))
    assert freeze({"a": 1, "b": 2}) == freeze({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="not JSON"):
        freeze(object())


def test_long_values_are_cut_when_shown() -> None:
    assert show(None) == "nil"
    assert len(show("x" * 10_000)) < 200
    assert "10002 characters" in show("x" * 10_000)


def test_a_string_with_no_future() -> None:
    model = KvAppend()
    get = Action("get", seen="ab", observes=True)
    put = Action("put", "", total=True, blind=True)

    assert isinstance(model, Foresees)
    alone = model.outlook([(4, 5, get)])
    assert alone("a", 3)
    assert not alone("b", 3)
    assert alone("b", 4), "the get has begun: it may be done already"
    assert model.outlook([(4, 6, get), (5, 7, put)])("b", 3)
    assert model.outlook([(1, None, put), (4, 6, get)])("b", 3)
    assert not model.outlook([(1, 2, put), (4, 6, get)])("b", 3)


def test_built_in_models_start_where_they_say() -> None:
    names = ("register", "cas-register", "kv-append", "set", "mutex", "topics")
    made = {name: models.get(name)() for name in names}
    starts = {name: model.start(model.initial) for name, model in made.items()}

    assert starts["register"] is None
    assert starts["kv-append"] == ""
    assert starts["set"] == frozenset()
    assert starts["topics"] is None


@pytest.mark.parametrize(
    ("model", "f", "asked", "answer", "what"),
    [
        (MultiRegister(), "txn", 3, 3, "want"),
        (MultiRegister(), "txn", [["dance", "x", 1]], None, "neither read nor write"),
        (MultiRegister(), "read", [1], None, "not|want a map"),
        (MultiRegister(), "txn", [["r", "x", 1]], [["r", "y", 1]], "other ops"),
        (ProducerIds(), "allocate", None, [1], "first, count"),
        (Isr(), "alter", 3, None, "members"),
        (Log(), "append", 1, "x", "position"),
        (ListAppend(), "read", None, 3, "not a list"),
    ],
)
def test_values_that_no_op_can_have_are_named(
    model: Model, f: str, asked: Any, answer: Any, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        model.action(interval(f, asked, answer), Conventions())
