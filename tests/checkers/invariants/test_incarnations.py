"""C1, C6 and C7, of what a broker is granted that it did not ask for, or too early."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.decisions import SESSION_SETTING
from checkers.invariants.incarnations import OneSession, WantedFence, WantedShutdown
from checkers.monitor.monitor import Monitor
from tests.support.traces.brokers import TWO, heartbeat, in_service
from tests.support.traces.traces import MS, Trace

SETTINGS = {SESSION_SETTING: "1000"}


def judged(trace: Trace) -> set[str]:
    invariants = [OneSession.of(SETTINGS), WantedFence(), WantedShutdown()]
    found = Monitor(invariants).feed_all(trace.run().events)
    return {anomaly.invariant for anomaly in found}


def come_back(trace: Trace, after_ms: int, **changes: Any) -> Trace:
    """Broker 4 starts again and is registered as another incarnation."""
    trace.start(4)
    trace.now_ns += after_ms * MS
    fields: dict[str, Any] = {"b_ep": 9, "inc_id": TWO.hex, "prev": -1, "err": 0}
    trace.emit(4, "reg", **(fields | changes))
    return trace


def test_healthy_brokers_raise_no_alarm() -> None:
    assert judged(in_service()) == set()


@pytest.mark.parametrize(("after_ms", "early"), [(300, True), (2000, False)])
def test_another_incarnation_waits_for_the_session(after_ms: int, early: bool) -> None:
    assert judged(come_back(in_service(), after_ms)) == ({"C1"} if early else set())


def test_a_refusal_is_as_it_should_be() -> None:
    assert judged(come_back(in_service(), 300, err=101)) == set()


def refused(trace: Trace, after_ms: int, **changes: Any) -> Trace:
    """Broker 4 asks once more, and is refused because of the process before."""
    trace.now_ns += after_ms * MS
    fields: dict[str, Any] = {"b_ep": -1, "inc_id": TWO.hex, "prev": -1, "err": 101}
    trace.emit(4, "reg", **(fields | changes))
    return trace


@pytest.mark.parametrize(("after_ms", "too_long"), [(1500, False), (3000, True)])
def test_nobody_is_refused_for_longer_than_a_session(after_ms: int, too_long: bool) -> None:
    """Two of them, and a grace: the last heartbeat of the process before may come late."""
    trace = refused(come_back(in_service(), 300, err=101), 2200)
    assert judged(refused(trace, after_ms)) == ({"C1"} if too_long else set())


def test_another_controller_may_refuse_for_as_long_again() -> None:
    trace = refused(come_back(in_service(), 300, err=101), 2200)
    assert judged(refused(refused(trace, 3000, ep=7), 2000, ep=7)) == set()


def test_who_is_let_in_between_may_be_refused_again() -> None:
    trace = refused(come_back(in_service(), 300, err=101), 2200)
    assert judged(refused(refused(trace, 1000, b_ep=9, err=0), 2800)) == set()


def test_the_same_incarnation_registers_as_often_as_it_likes() -> None:
    first = in_service()
    incarnation = next(e for e in first.events["n4"] if e["t"] == "reg")["inc_id"]
    assert judged(come_back(first, 300, inc_id=incarnation)) == set()


def test_another_controller_may_have_fenced_it() -> None:
    assert judged(come_back(in_service(), 300, ep=7)) == set()


def test_who_had_asked_to_stop_may_come_back_at_once() -> None:
    trace = in_service()
    heartbeat(trace, want_shut_down=True, fenced=True, shut_down=True)
    assert judged(come_back(trace, 300)) == set()


def test_who_was_fenced_has_no_session() -> None:
    trace = in_service()
    heartbeat(trace, fenced=True)
    assert judged(come_back(trace, 300)) == set()


def test_a_removed_broker_has_no_session() -> None:
    trace = in_service()
    trace.emit(1, "ack", api="UnregisterBroker", off=5, hwm=6)
    assert judged(come_back(trace, 300)) == set()


def test_who_wants_to_stay_fenced_is_not_unfenced() -> None:
    trace = in_service()
    heartbeat(trace, want_fence=True, fenced=True)
    assert judged(trace) == set()
    heartbeat(trace, want_fence=True)
    assert judged(trace) == {"C6"}


def test_who_stops_may_still_be_in_service() -> None:
    trace = in_service()
    heartbeat(trace, want_fence=True, want_shut_down=True)
    heartbeat(trace, want_fence=True)
    assert judged(trace) == set()


def test_nobody_is_told_to_stop_unasked() -> None:
    trace = in_service()
    heartbeat(trace, shut_down=True, fenced=True)
    assert judged(trace) == {"C7"}


def test_a_wish_that_had_no_answer_may_be_granted_later() -> None:
    trace = in_service()
    heartbeat(trace, want_shut_down=True, err=None)
    heartbeat(trace, shut_down=True, fenced=True)
    assert judged(trace) == set()


def test_a_new_process_has_asked_for_nothing() -> None:
    trace = in_service()
    heartbeat(trace, want_shut_down=True)
    trace.start(4)
    heartbeat(trace, shut_down=True, fenced=True)
    assert judged(trace) == {"C7"}
