"""L5: who is not the active controller says so at once."""

from __future__ import annotations

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
