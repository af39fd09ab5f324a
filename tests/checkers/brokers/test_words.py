"""What the ops of played brokers say of who may have asked to be let go."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.brokers.words import asked_to_stop
from harness.history.ops import History, Op, OpType

B: dict[str, Any] = {"broker": 1001, "epoch": 7}


def history(type_: OpType | None, value: dict[str, Any], f: str = "shut-down") -> History:
    ops = [Op(0, 5, 0, "invoke", f)]
    return History([*ops, Op(1, 9, 0, type_, f, value)] if type_ else ops)


@pytest.mark.parametrize("type_", ["ok", "info"])
def test_who_may_have_been_heard_may_have_asked_to_stop(type_: OpType) -> None:
    assert asked_to_stop(history(type_, B)) == {(1001, 7): 5}


@pytest.mark.parametrize(("type_", "value"), [("info", {}), (None, {})])
def test_anybody_may_have_asked_where_nobody_says_who_it_was(
    type_: OpType | None, value: dict[str, Any]
) -> None:
    assert asked_to_stop(history(type_, value)) == {None: 5}


def test_who_was_refused_has_not_asked() -> None:
    assert asked_to_stop(history("fail", B)) == {}


def test_other_heartbeats_ask_for_nothing() -> None:
    assert asked_to_stop(history("ok", B, "fence")) == {}
