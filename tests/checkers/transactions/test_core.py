"""An anomaly of transactions names a few that have it alone, and none of them can be left out."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import pytest

from checkers.transactions import core
from checkers.transactions.consistency import FORBIDDEN
from checkers.transactions.cycles import check_transactions
from harness.history.ops import History, Interval, Op
from harness.verdict import Anomaly, Valid
from tests.checkers.transactions.test_cycles import history
from tests.support.histories.list_append_brute import random_history
from tests.support.histories.worst import WORST
from tests.support.histories.worst import history as worst_history

INVALID = int(os.environ.get("KRUCIBLE_EXPLAINED", "100"))  # histories
MODELS = ("strict-serializable", "serializable", "strong-session-serializable")
CIRCLES = {
    name for name in FORBIDDEN["strict-serializable"] if name.startswith(("G0", "G1c", "G-", "G2"))
}


def ops_of(intervals: list[Interval]) -> History:
    """The ops of these, in their order."""
    both = chain.from_iterable((i.invocation, i.completion) for i in intervals)
    return History(sorted((op for op in both if op is not None), key=lambda op: op.index))


def appends(intervals: list[Interval]) -> dict[tuple[Any, Any, bool], None]:
    """Key and element of all that these appended, and whether that was refused."""
    return {
        (key, element, i.outcome == "fail"): None
        for i in intervals
        for f, key, element in i.invocation.value
        if f == "append"
    }


def set_free(named: list[Interval], others: list[Interval]) -> History:
    """The named ones, with what they read of the others' appended at an unknown time."""
    told = [i.completion.value for i in named if i.completion and i.outcome == "ok"]
    seen = {(k, e) for mops in told for f, k, elements in mops if f == "r" for e in elements}
    mine = appends(named)
    free: list[Op] = []
    for at, (key, element, refused) in enumerate(appends(others)):
        if (key, element) in seen and (key, element, refused) not in mine:
            begin = Op(0, 0, f"free {at}", "invoke", "txn", [["append", key, element]])
            free += [begin, begin.with_(type="fail")] if refused else [begin]
    before = [op.with_(index=at - len(free)) for at, op in enumerate(free)]
    return History([*before, *ops_of(named)])


def assert_core(anomaly: Anomaly, whole: History, model: str) -> None:
    """Alone it is there; with all others set free, too; without any one of them it is not."""
    name = anomaly.details["anomaly"]

    def there(some: History) -> set[str]:
        result = check_transactions(some, consistency_model=model)
        return set(result.stats["anomalies"]) if result.valid is Valid.INVALID else set()

    intervals = list(whole.intervals())
    named = [i for i in intervals if i.invocation.index in anomaly.ops]
    others = [i for i in intervals if i not in named]
    assert {op.index for op in ops_of(named)} == set(anomaly.ops)
    assert name in there(ops_of(named)), anomaly
    freed = there(set_free(named, others))
    # of a circle a shorter way round, of another name, may be found by way of what was set free
    assert name in freed or ("cycle" in anomaly.details and CIRCLES & freed), anomaly
    assert anomaly.message.startswith(f"{name}: ")
    assert anomaly.details["minimal"], anomaly
    for out in named:
        assert name not in there(ops_of([i for i in named if i != out])), (anomaly, out)


def test_transactions_that_are_named_have_their_anomaly_alone_and_none_can_be_left_out() -> None:
    rng, seen = Random("cores"), 0
    for n in range(50 * INVALID):
        model = MODELS[n % len(MODELS)]
        whole = random_history(rng, rng.randint(3, 12))
        result = check_transactions(whole, consistency_model=model)
        for anomaly in result.anomalies:
            assert_core(anomaly, whole, model)
        seen += result.valid is Valid.INVALID
        if seen == INVALID:
            break
    assert seen == INVALID, f"{seen} invalid histories drawn"


@pytest.mark.parametrize(
    ("text", "anomaly", "told"),
    [
        (
            "0 fail ax1\n1 ax2\n2 rx12\n3 rx12 ax3",
            "dirty-update",
            "'x' has 2 appended to 1, which was refused (op 1, op 3, op 5)",
        ),
        (
            "0 ax1 ax2\n1 rx21\n2 rx21 ax3",
            "incompatible-order",
            "'x' is [2, 1], but one transaction appended 1 before 2 (op 1, op 3)",
        ),
        (
            "0 ax1\n1 ax2\n2 rx21",
            "G0-realtime",
            (
                "no order explains this: op 3 appended 2 to 'x', and op 1 1 behind it (ww); op 1 "
                "ended before op 3 began (realtime); op 5 shows it"
            ),
        ),
        (
            "0 rx ax1\n1 rx ax2\n2 rx ax3",
            "lost-update",
            "3 transactions read [] of 'x' and all appended to it, these first (op 1, op 3)",
        ),
    ],
)
def test_what_shows_an_order_is_named_too(text: str, anomaly: str, told: str) -> None:
    whole = history(text)
    result = check_transactions(whole)
    (found,) = [a for a in result.anomalies if a.details["anomaly"] == anomaly]
    assert found.message == f"{anomaly}: {told}"
    assert_core(found, whole, "strict-serializable")


def test_elements_appended_twice_say_nothing_of_others_when_one_is_left_out() -> None:
    """With one of the two appends of 1 to ``x`` the second and third contradict by ``x`` alone."""
    whole = history("0 ax1\n1 ay1 ax1\n2 ay2 ax2 rx21\n3 ry21")
    (found,) = [a for a in check_transactions(whole).anomalies if "G0-realtime" in a.message]
    assert "of 'y'" in found.message or "to 'y'" in found.message
    assert found.ops == (2, 3, 4, 5, 6, 7)
    assert found.details["minimal"]


@pytest.mark.parametrize("name", ["list-append, lies", "list-append, lost updates"])
def test_of_much_that_is_wrong_the_first_is_explained(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted, not time, so that the same is explained each time."""
    whole = worst_history(replace(WORST[name], ops=400), seed=1)
    result = check_transactions(whole, time_limit_s=600)
    assert result.valid is Valid.INVALID
    for anomaly in [anomaly for anomaly in result.anomalies if anomaly.details["minimal"]][:3]:
        assert_core(anomaly, whole, "strict-serializable")
    assert check_transactions(whole, time_limit_s=600).to_json() == result.to_json()
    monkeypatch.setattr(core, "WORK_MAX", 20)
    fewer = check_transactions(whole, time_limit_s=600)
    assert {anomaly.details["minimal"] for anomaly in fewer.anomalies} == {True, False}
    assert fewer.stats == result.stats
