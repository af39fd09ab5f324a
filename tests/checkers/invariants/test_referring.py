"""L5: who is not the active controller says so at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from node.wire.api import ApiKey
from tests.support.traces.traces import MS, Trace, healthy


def judged(trace: Trace) -> list[Anomaly]:
    return Monitor(invariants_for({})).feed_all(trace.run().events)


def unanswered(trace: Trace, node: int, api: ApiKey = ApiKey.CREATE_TOPICS, ms: int = 1500) -> None:
    trace.now_ns += ms * MS
    trace.emit(node, "unanswered", api=int(api), ms=ms)


def test_a_voter_that_does_not_lead_leaves_no_request_unanswered() -> None:
    trace = healthy(3, 2)
    unanswered(trace, 3)
    (anomaly,) = judged(trace)
    assert anomaly.invariant == "L5"
    assert anomaly.message.startswith(
        "n3 left a request of API CREATE_TOPICS without an answer for 1500 ms, though it was not"
    )


def test_who_has_renounced_long_ago_is_judged_again() -> None:
    trace = healthy(3, 2)
    trace.emit(2, "claim", applied=trace.disks[2].applied)
    trace.emit(2, "renounce", applied=trace.disks[2].applied)
    unanswered(trace, 2)
    assert [each.invariant for each in judged(trace)] == ["L5"]


@pytest.mark.parametrize("renounces", [False, True])
def test_the_active_controller_may_wait_for_a_commit(renounces: bool) -> None:
    trace = healthy(3, 2)
    trace.emit(2, "claim", applied=trace.disks[2].applied)
    if renounces:  # while the request waits
        trace.now_ns += 1000 * MS
        trace.emit(2, "renounce", applied=trace.disks[2].applied)
        trace.now_ns -= 1000 * MS
    unanswered(trace, 2)
    assert judged(trace) == []


@pytest.mark.parametrize(
    ("node", "api"), [(4, ApiKey.CREATE_TOPICS), (3, ApiKey.FETCH), (3, ApiKey.DESCRIBE_CLUSTER)]
)
def test_brokers_forward_and_fetches_wait(node: int, api: ApiKey) -> None:
    trace = healthy(3, 2)
    unanswered(trace, node, api)
    assert judged(trace) == []


def denied(trace: Trace, node: int, api: ApiKey = ApiKey.UPDATE_FEATURES, ms: int = 20) -> None:
    trace.now_ns += ms * MS
    trace.emit(node, "denied", api=int(api), ms=ms)


def reigns(trace: Trace, ms: int) -> None:
    """Node 2 commits something after so long."""
    trace.now_ns += ms * MS
    told: dict[str, Any] = {"as": "leader"}
    trace.emit(2, "hwm", v=trace.disks[2].hwm, **told)


def claimed() -> Trace:
    trace = healthy(3, 2)
    trace.emit(2, "claim", applied=trace.disks[2].applied)
    return trace


def test_the_active_controller_does_not_say_that_it_is_not() -> None:
    trace = claimed()
    denied(trace, 2)
    reigns(trace, 1000)
    (anomaly,) = judged(trace)
    assert anomaly.invariant == "L5"
    assert anomaly.message.startswith(
        "n2 answered a request of API UPDATE_FEATURES as if it were not the active controller"
    )


def it_ends_with_that(trace: Trace) -> None:
    denied(trace, 2)
    trace.emit(2, "renounce", applied=trace.disks[2].applied)
    reigns(trace, 1000)


def another_one_is_asked(trace: Trace) -> None:
    denied(trace, 3)
    reigns(trace, 1000)


def nothing_is_known_of_later(trace: Trace) -> None:
    denied(trace, 2)
    reigns(trace, 900)


@pytest.mark.parametrize(
    "happens", [it_ends_with_that, another_one_is_asked, nothing_is_known_of_later]
)
def test_who_may_not_be_active_any_more_may_say_so(happens: Callable[[Trace], None]) -> None:
    trace = claimed()
    happens(trace)
    assert judged(trace) == []


def test_who_was_not_active_when_it_was_asked_may_say_so() -> None:
    trace = healthy(3, 2)
    trace.emit(2, "claim", applied=trace.disks[2].applied)
    trace.emit(2, "denied", api=int(ApiKey.UPDATE_FEATURES), ms=500)
    reigns(trace, 1000)
    assert judged(trace) == []
