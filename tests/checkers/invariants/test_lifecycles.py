"""C19, of a broker that does not do what the answers to its heartbeats say."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.decisions import SESSION_SETTING
from checkers.invariants.lifecycles import INTERVAL_SETTING, FollowedAnswers
from checkers.monitor.monitor import Monitor
from tests.support.traces.brokers import ONE, heartbeat
from tests.support.traces.traces import MS, Trace, healthy

SETTINGS = {SESSION_SETTING: "1000", INTERVAL_SETTING: "300"}
STARTING, RECOVERY, RUNNING = "STARTING", "RECOVERY", "RUNNING"
PENDING, SHUTTING_DOWN = "PENDING_CONTROLLED_SHUTDOWN", "SHUTTING_DOWN"


def judged(trace: Trace) -> list[str]:
    found = Monitor([FollowedAnswers.of(SETTINGS)]).feed_all(trace.run().events)
    return [anomaly.message for anomaly in found]


def move(trace: Trace, from_: str, to: str) -> None:
    fields: dict[str, Any] = {"from": from_, "to": to, "name": to}
    trace.emit(4, "bstate", **fields)


def fence(trace: Trace, *, fenced: bool, why: str = "controller") -> None:
    trace.emit(4, "fence", b_ep=2, fenced=fenced, why=why)


def registered() -> Trace:
    trace = healthy(3, 2)
    move(trace, "NOT_RUNNING", STARTING)
    trace.emit(4, "reg", b_ep=2, inc_id=ONE.hex, prev=-1, err=0)
    heartbeat(trace, 10, off=1, caught_up=False, fenced=True, want_fence=True)
    return trace


def recovering() -> Trace:
    trace = registered()
    heartbeat(trace, 10, fenced=True, want_fence=True)
    move(trace, STARTING, RECOVERY)
    return trace


def running() -> Trace:
    trace = recovering()
    heartbeat(trace, 10)
    fence(trace, fenced=False)
    move(trace, RECOVERY, RUNNING)
    heartbeat(trace, 300)
    return trace


def stopping() -> Trace:
    trace = running()
    move(trace, RUNNING, PENDING)
    heartbeat(trace, 5, want_shut_down=True)
    return trace


def test_a_broker_that_does_what_it_is_told_raises_no_alarm() -> None:
    trace = running()
    heartbeat(trace, fenced=True)
    fence(trace, fenced=True)
    heartbeat(trace)
    fence(trace, fenced=False)
    for _ in range(4):
        heartbeat(trace, err=None)
    fence(trace, fenced=True, why="session")
    heartbeat(trace)
    fence(trace, fenced=False)
    move(trace, RUNNING, PENDING)
    heartbeat(trace, 5, want_shut_down=True)
    heartbeat(trace, 50, want_shut_down=True, shut_down=True)
    move(trace, PENDING, SHUTTING_DOWN)
    assert judged(trace) == []


def alarms(trace: Trace, *changes: Any) -> list[str]:
    """Emit the events that the arguments tell: a state, a fence, or a heartbeat."""
    for change in changes:
        match change:
            case (from_, to):
                move(trace, from_, to)
            case bool():
                fence(trace, fenced=change)
            case "session":
                fence(trace, fenced=True, why="session")
            case _:
                heartbeat(trace, **change)
    return judged(trace)


FAILED = {"err": None}


@pytest.mark.parametrize(
    ("trace", "changes", "told"),
    [
        (registered(), [(STARTING, RECOVERY)], "went to RECOVERY"),
        (recovering(), [(RECOVERY, RUNNING)], "went to RUNNING"),
        (registered(), [{"want_fence": True, "fenced": True}, {}], "might go to RECOVERY"),
        (recovering(), [{}, False, {}], "might go to RUNNING"),
        (running(), [False], "learned that it is unfenced"),
        (running(), [True], "learned that it is fenced"),
        (running(), [{"fenced": True}, {}], "was told that it is fenced, and still"),
        (running(), [*[FAILED] * 5, {}], "long after its session had ended"),
        (running(), [FAILED, "session"], "took its session for over"),
        (registered(), ["session"], "ended a session that it did not have"),
        (running(), [{"after_ms": 100}], "it has to wait for 0.3 s"),
        (running(), [FAILED, {"after_ms": 10}], "it has to wait for 0.08 s"),
        (registered(), [{"want_fence": False, "fenced": True, "caught_up": False}], "before it"),
        (running(), [{"want_fence": True}], "wanted to be fenced again"),
        (running(), [{"want_shut_down": True}], "wanted to shut down, and was RUNNING"),
        (stopping(), [{"want_shut_down": True, "shut_down": True}, {}], "go to SHUTTING_DOWN"),
    ],
)
def test_one_that_does_not_is_told(trace: Trace, changes: list[Any], told: str) -> None:
    assert any(told in message for message in alarms(trace, *changes))


def test_where_nobody_tells_of_states_nothing_is_judged() -> None:
    trace = healthy(3, 2)
    trace.emit(4, "reg", b_ep=2, inc_id=ONE.hex, prev=-1, err=0)
    for _ in range(3):
        heartbeat(trace, 1)
    its = FollowedAnswers.of(SETTINGS)
    assert not Monitor([its]).feed_all(trace.run().events)
    assert its.checked == 0


def test_another_process_of_the_broker_begins_anew() -> None:
    trace = running()
    trace.start(4)
    trace.now_ns += MS
    move(trace, "NOT_RUNNING", STARTING)
    heartbeat(trace, 1, want_fence=True, fenced=True, caught_up=False)
    assert judged(trace) == []


@pytest.mark.parametrize(("after_ms", "alarm"), [(2_000, False), (5_500, True)])
def test_a_process_that_shuts_down_ends(after_ms: int, alarm: bool) -> None:
    """It may fetch once long after: it was paused, and has not come to its end yet."""
    trace = stopping()
    heartbeat(trace, 50, want_shut_down=True, shut_down=True)
    move(trace, PENDING, SHUTTING_DOWN)
    trace.now_ns += after_ms * MS
    trace.emit(4, "fetch_tx", to=1, off=6, last_ep=1)
    assert judged(trace) == []
    trace.now_ns += 1_500 * MS
    trace.emit(4, "fetch_tx", to=1, off=6, last_ep=1)
    assert [("shuts down" in message) for message in judged(trace)] == [True] * alarm


def test_who_stops_says_so_at_once_also_after_a_failure() -> None:
    trace = running()
    heartbeat(trace, err=None)
    move(trace, RUNNING, PENDING)
    heartbeat(trace, 5, want_shut_down=True)
    assert judged(trace) == []


def test_who_can_serve_says_so_at_once_also_after_a_failure() -> None:
    trace = recovering()
    heartbeat(trace, 300, err=None, want_fence=True)
    heartbeat(trace, 5, fenced=True)
    assert judged(trace) == []
