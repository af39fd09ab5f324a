"""The controller's decisions about brokers and partitions that are wrong: C5, C7, C12."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.invariants.decisions import HEARTBEAT_SETTING, SESSION_SETTING
from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.brokers import (
    TOPIC_ID,
    change,
    change_broker,
    in_service,
    told,
    walked,
)
from tests.support.traces.traces import MS, Event, Trace

# ---------------------------------------------------------------------- by events

SESSION_MS = 1000


def judged(trace: Trace) -> tuple[Monitor, list[Anomaly]]:
    settings = {SESSION_SETTING: str(SESSION_MS), HEARTBEAT_SETTING: "300"}
    monitor = Monitor(invariants_for(settings, checker="observers"))
    return monitor, monitor.feed_all(trace.run().events)


def works(trace: Trace, ms: int, node: int = 2) -> None:
    """The active controller goes on committing for so long."""
    told: dict[str, Any] = {"as": "leader"}
    for _ in range(0, ms, 500):
        trace.now_ns += 500 * MS
        trace.emit(node, "hwm", v=trace.disks[node].hwm, **told)


def expire(trace: Trace, broker: int = 4, **changes: Any) -> Event:
    fields: dict[str, Any] = {"broker": broker, "b_ep": 2, "off": 9}
    fields |= {"silent_ms": 1100, "session_ms": SESSION_MS}
    return trace.emit(2, "expire", **(fields | changes))


def let_go(trace: Trace, **changes: Any) -> Event:
    fields: dict[str, Any] = {"broker": 5, "b_ep": 3, "was": "controlled shutdown"}
    fields |= {"want_fence": False, "leads": False, "need": 4, "active": [[4, 5]], "off": 9}
    return trace.emit(2, "let_go", **(fields | changes))


def decided() -> Trace:
    """Broker 5 was let go, and broker 4 fenced when it had been silent for a session."""
    trace = in_service()
    let_go(trace)
    works(trace, 1000)
    expire(trace)
    return trace


def test_healthy_decisions_raise_no_alarm_and_every_invariant_examines_something() -> None:
    monitor, anomalies = judged(decided())
    assert (anomalies, monitor.gaps) == ([], [])
    before = judged(in_service())[0].checked
    assert all(monitor.checked[name] > before[name] for name in ("C7", "C12"))


def let_go_before_all_knew(trace: Trace) -> None:
    let_go(trace, active=[[4, 3]])


def let_go_at_an_offset_that_nobody_knows(trace: Trace) -> None:
    let_go(trace, need=None)


def let_go_while_it_leads(trace: Trace) -> None:
    let_go(trace, was="unfenced", leads=True, need=None)


def let_go_on_what_was_never_published(trace: Trace) -> None:
    let_go(trace, active=[[4, trace.disks[4].hwm + 3]])


def fenced_within_its_session(trace: Trace) -> None:
    works(trace, 1000)
    expire(trace, silent_ms=SESSION_MS)


def fenced_right_after_the_claim(trace: Trace) -> None:
    works(trace, 1000)
    trace.emit(2, "claim", applied=trace.disks[2].applied)
    works(trace, 500)
    expire(trace)


def fenced_right_after_a_heartbeat(trace: Trace) -> None:
    works(trace, 500)
    expire(trace)


BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("C7", let_go_before_all_knew),
    ("C7", let_go_at_an_offset_that_nobody_knows),
    ("C7", let_go_while_it_leads),
    ("C7", let_go_on_what_was_never_published),
    ("C12", fenced_within_its_session),
    ("C12", fenced_right_after_the_claim),
    ("C12", fenced_right_after_a_heartbeat),
]


@pytest.mark.parametrize(("name", "change"), BREAKS, ids=[f"{n}-{c.__name__}" for n, c in BREAKS])
def test_a_broken_promise_is_called_by_its_name(name: str, change: Callable[[Trace], Any]) -> None:
    trace = in_service()
    change(trace)
    _, anomalies = judged(trace)
    assert {anomaly.invariant for anomaly in anomalies} == {name}
    assert anomalies[0].events


def the_controller_stood_still(trace: Trace) -> None:
    trace.now_ns += 6000 * MS
    works(trace, 500)
    expire(trace, silent_ms=6500)


def a_fenced_broker_may_go_at_any_time(trace: Trace) -> None:
    let_go(trace, was="fenced", need=None, active=[[4, 0]])


@pytest.mark.parametrize(
    "change",
    [
        the_controller_stood_still,
        a_fenced_broker_may_go_at_any_time,
    ],
)
def test_what_may_well_be_right_raises_no_alarm(change: Callable[[Trace], Any]) -> None:
    trace = in_service()
    change(trace)
    assert judged(trace)[1] == []


# ---------------------------------------------------------------------- by the committed log


def alter(**changes: Any) -> Event:
    """Broker 1 has taken broker 2 out of the ISR."""
    fields: dict[str, Any] = {"broker": 1, "b_ep": 0, "tp": [TOPIC_ID.hex, 0], "err": 0}
    fields |= {"req_lep": 0, "req_pep": 0, "req_isr": [[1, 0]], "lep": 0, "pep": 1, "off": 6}
    return told(3, "alter", **(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"err": 108}, None),
        ({"req_isr": [[1, -1], [2, -1]]}, None),  # before KIP-903
        ({"err": 95, "req_pep": 9}, None),
        ({"pep": 0}, None),  # nothing was to be changed
        ({"off": 99, "pep": 5, "req_pep": 4}, None),  # not committed as far as the log goes
        ({"broker": 2, "b_ep": 1}, "by n2 at epochs 0/0, when it was"),
        ({"req_lep": 1}, "by n1 at epochs 1/0, when it was"),
        ({"req_pep": 3}, "from partition epoch 3 to 1"),
        ({"req_isr": [[2, 1]]}, "to the ISR [2], and got [1]"),
        ({"req_isr": [[1, 0], [2, 0]]}, "with broker 2 at epoch 0, which was at 1 then"),
        ({"b_ep": 1}, "with broker 1 at epoch 1, which was at 0 then"),
        ({"req_pep": 4, "pep": 5}, "to partition epoch 5, which the log never gives it"),
    ],
)
def test_a_partition_is_altered_only_as_its_leader_has_seen_it(
    changes: dict[str, Any], message: str | None
) -> None:
    result = walked(change(isr=(1,)), events=[alter(**changes)])
    assert [a.invariant for a in result.anomalies] == ([] if message is None else ["C5"])
    if message is not None:
        assert message in result.anomalies[0].message
        assert result.checked["C5"] == 1


SHUTDOWN = [
    [change_broker(1, 0, in_controlled_shutdown=1), *change(isr=(2,), leader=2)],  # 6 and 7
    [change_broker(1, 0, fenced=1)],
]


@pytest.mark.parametrize(
    ("changes", "batches", "message"),
    [
        ({}, SHUTDOWN, None),
        ({"active": []}, SHUTDOWN, "whatever broker 2 knew, which was active"),
        ({"need": 5}, SHUTDOWN, "when all knew of offset 5, before the 6 of its shutdown"),
        (
            {},
            [SHUTDOWN[0][:1], [change_broker(2, 1)], [*change(isr=(2,), leader=2), *SHUTDOWN[1]]],
            "and led 1 partitions",
        ),
    ],
)
def test_a_broker_is_let_go_only_when_the_log_says_it_may(
    changes: dict[str, Any], batches: list[Any], message: str | None
) -> None:
    last = 5 + sum(map(len, batches))
    fields: dict[str, Any] = {"broker": 1, "b_ep": 0, "was": "controlled shutdown", "need": 7}
    fields |= {"active": [[2, 7]], "off": last} | changes
    result = walked(*batches, events=[told(3, "let_go", **fields)])
    assert result.checked["C7"] == 1
    found = [a.message for a in result.anomalies if a.invariant == "C7"]
    assert len(found) == (message is not None)
    assert (message or "") in "".join(found)
