"""An anomaly of partitions names a few ops that have it alone, and none of them can be left out."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import pytest

from checkers.partitions import core
from checkers.partitions.log import check_log
from harness.history.ops import History, Interval, Op
from harness.verdict import Anomaly, Valid
from tests.checkers.partitions.test_log import ALL, SENT, Step, done, poll, send
from tests.support.histories.random_partitions import random_partitions
from tests.support.histories.worst import WORST
from tests.support.histories.worst import history as worst_history

INVALID = int(os.environ.get("KRUCIBLE_EXPLAINED", "100"))  # histories
IDENTITY = ("key", "offset", "value")


def ops_of(intervals: list[Interval]) -> History:
    """The ops of these, in their order."""
    both = chain.from_iterable((i.invocation, i.completion) for i in intervals)
    return History(sorted((op for op in both if op is not None), key=lambda op: op.index))


def sends(intervals: list[Interval]) -> dict[tuple[str, Any, bool], None]:
    """Key and value of all that these sent, and whether that failed."""
    return {
        (mop[1], mop[2], i.outcome == "fail"): None
        for i in intervals
        if i.invocation.f != "assign"
        for mop in i.invocation.value
        if mop[0] == "send"
    }


def set_free(named: list[Interval], others: list[Interval]) -> History:
    """The named ones, what they polled of the others' sent at an unknown time, and all assigns."""
    mine = sends(named)
    free: list[Op] = []
    for at, (key, value, failed) in enumerate(sends(others)):
        if (key, value, failed) not in mine:
            begin = Op(0, 0, f"free {at}", "invoke", "send", [["send", key, value]])
            free += [begin, begin.with_(type="fail")] if failed else [begin]
    processes = {i.invocation.process for i in named}
    assigns = [
        i for i in others if i.invocation.f == "assign" and i.invocation.process in processes
    ]
    before = [op.with_(index=at - len(free)) for at, op in enumerate(free)]
    return History([*before, *ops_of([*named, *assigns])])


def assert_core(anomaly: Anomaly, whole: History) -> None:
    """Alone and with all others set free it is there; without any one of them it is not."""
    same = [anomaly.details.get(name) for name in IDENTITY]

    def there(some: History) -> bool:
        return any(
            found.invariant == anomaly.invariant
            and [found.details.get(name) for name in IDENTITY] == same
            for found in check_log(some).anomalies
        )

    intervals = list(whole.intervals())
    named = [i for i in intervals if i.invocation.index in anomaly.ops]
    others = [i for i in intervals if i not in named]
    assert {op.index for op in ops_of(named)} == set(anomaly.ops)
    assert check_log(ops_of(named)).valid is Valid.INVALID
    assert there(ops_of(named)), anomaly
    assert there(set_free(named, others)), anomaly
    assert anomaly.details["minimal"], anomaly
    for out in named:
        rest = [i for i in named if i != out]
        still = there(ops_of(rest)) and there(set_free(rest, [*others, out]))
        assert not still, (anomaly, out)


def test_ops_that_are_named_have_their_anomaly_alone_and_none_can_be_left_out() -> None:
    rng, seen, names = Random("cores"), 0, Counter[str]()
    for _ in range(50 * INVALID):
        whole = random_partitions(rng, rng.randint(4, 40))
        result = check_log(whole)
        for anomaly in result.anomalies:
            assert_core(anomaly, whole)
            names[anomaly.invariant] += 1
        seen += result.valid is Valid.INVALID
        if seen == INVALID:
            break
    assert seen == INVALID, f"{seen} invalid histories drawn"
    assert len(names) > 10, names


def whole_of(*ops: list[Step]) -> History:
    return History(Op(n, n, *step) for n, step in enumerate(chain.from_iterable(ops)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ops", "name", "told"),
    [
        (
            [SENT, done(1, poll(x=ALL)), done(2, poll(x=ALL[:1])), done(2, poll(x=ALL[2:]))],
            "poll-skip",
            (
                "partition x went from 'a' (offset 0) to 'c' (offset 2), past 'b' (offset 1) "
                "(op 9, op 11, op 7)"
            ),
        ),
        (
            [SENT, done(1, poll(x=[*ALL, (3, "a"), (4, "a")]))],
            "duplicate",
            "partition x has 'a' at offsets 0, 3, 4 (op 7)",
        ),
    ],
)
def test_what_shows_an_order_is_named_too(ops: list[list[Step]], name: str, told: str) -> None:
    whole = whole_of(*ops)
    (found,) = [a for a in check_log(whole).anomalies if a.invariant == name]
    assert found.message == f"{name}: {told}"
    assert_core(found, whole)


def test_what_was_assigned_in_between_is_in_force_though_it_is_not_named() -> None:
    """Without its assigns process 1 would have skipped from its first poll to its last, too."""
    log = list(enumerate("abcd"))
    sent = [done(0, send("x", value, offset)) for offset, value in log]
    moved: list[Step] = [(1, t, "assign", [key]) for key in "yx" for t in ("invoke", "ok")]
    first = done(1, poll(x=[log[2], log[1]]))
    after = [done(1, poll(x=log[:1])), done(1, poll(x=log[3:]))]
    whole = whole_of(*sent, first, moved, *after, done(2, poll(x=log)))
    (found,) = [a for a in check_log(whole).anomalies if a.invariant == "poll-skip"]
    assert "went from 'a' (offset 0) to 'd' (offset 3), past 2 others, first 'b'" in found.message
    assert found.ops == (8, 9, 14, 15, 16, 17)
    assert_core(found, whole)


def test_of_much_that_is_wrong_the_first_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not time, so that the same is explained each time."""
    whole = worst_history(replace(WORST["kafka"], ops=600), seed=1)
    result = check_log(whole, time_limit_s=600)
    assert {anomaly.details["minimal"] for anomaly in result.anomalies} == {True}
    assert check_log(whole, time_limit_s=600).to_json() == result.to_json()
    monkeypatch.setattr(core, "WORK_MAX", 100)
    fewer = check_log(whole, time_limit_s=600)
    assert {anomaly.details["minimal"] for anomaly in fewer.anomalies} == {True, False}
    assert fewer.stats == result.stats
