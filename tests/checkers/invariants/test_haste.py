"""L9, of those who stand before their time."""

from __future__ import annotations

import pytest

from checkers.invariants.haste import ELECTION_SETTING, FETCH_SETTING, Haste
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import MS, Trace

SETTINGS = {FETCH_SETTING: "800", ELECTION_SETTING: "400"}


def judged(trace: Trace, *, some: bool = True) -> list[Anomaly]:
    haste = Haste.of(SETTINGS)
    found = Monitor([haste]).feed_all(trace.run().events)
    assert bool(haste.checked) is some
    return found


def led() -> Trace:
    """Node 1 leads epoch 1; its followers have just heard of it."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    return trace


@pytest.mark.parametrize(("after_ms", "hasty"), [(300, True), (790, False), (5000, False)])
def test_a_follower_waits_for_a_fetch_timeout(after_ms: int, hasty: bool) -> None:
    trace = led()
    trace.now_ns += after_ms * MS
    trace.role(2, "prospective", by=None)
    assert bool(judged(trace)) is hasty


def test_a_record_of_the_leader_begins_the_wait_anew() -> None:
    trace = led()
    trace.now_ns += 790 * MS
    trace.replicate(1)
    trace.role(2, "prospective", by=None)
    (found,) = judged(trace)
    assert found.invariant == "L9"
    assert found.events[0]["t"] == "append"


@pytest.mark.parametrize(("lost", "hasty"), [({"backoff_ms": 50}, False), ({}, True)])
def test_a_candidate_that_lost_may_wait_by_its_backoff_instead(
    lost: dict[str, int], hasty: bool
) -> None:
    """As Kafka's do up to 4.0: the backoff is random, from 0 on."""
    trace = led()
    trace.role(2, "candidate", by=None)
    trace.now_ns += 50 * MS
    trace.role(2, "prospective", by=None, **lost)
    found = [each for each in judged(trace) if "candidate of" in each.message]
    assert bool(found) is hasty


def test_who_is_told_that_the_reign_ends_stands_as_it_is_told() -> None:
    trace = led()
    trace.emit(2, "rpc_ok", api="EndQuorumEpoch", peer=1, req_ep=1)
    trace.role(2, "prospective", by=None)
    assert not judged(trace, some=False)


def test_an_announcement_of_the_leader_shortens_nothing() -> None:
    trace = led()
    trace.emit(2, "rpc_ok", api="BeginQuorumEpoch", peer=1, req_ep=1)
    trace.role(2, "prospective", by=None)
    assert judged(trace)


@pytest.mark.parametrize(("after_ms", "hasty"), [(100, True), (390, False)])
def test_a_candidate_and_a_resigned_leader_wait_for_an_election_timeout(
    after_ms: int, hasty: bool
) -> None:
    trace = Trace(3)
    trace.start()
    trace.role(2, "candidate", voted=2)
    trace.now_ns += after_ms * MS
    trace.role(2, "prospective", by=None)
    assert bool(judged(trace)) is hasty

    trace = led()
    trace.role(1, "resigned", leader=1)
    trace.now_ns += after_ms * MS
    trace.disks[1].epoch += 1
    trace.role(1, "unattached", by=None)
    assert bool(judged(trace)) is hasty


def test_news_of_another_epoch_need_not_be_waited_for() -> None:
    trace = led()
    trace.role(1, "resigned", leader=1)
    trace.disks[1].epoch += 1
    trace.role(1, "unattached", by="VoteRequest")
    assert not judged(trace, some=False)


def test_a_lone_voter_need_not_wait() -> None:
    trace = Trace(1)
    trace.start()
    trace.role(1, "follower", leader=2)
    trace.role(1, "prospective", by=None)
    assert not judged(trace, some=False)


def test_without_the_timeouts_nothing_is_too_early() -> None:
    trace = led()
    trace.role(2, "prospective", by=None)
    haste = Haste.of({})
    assert not Monitor([haste]).feed_all(trace.run().events)
    assert not haste.checked
