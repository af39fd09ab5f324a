"""L10 of brokers that want to stop: told to wait for too long, and what excuses that."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.liveness.shutdowns import late_shutdowns
from harness.history.ops import NEMESIS, History, Op

S = 1_000_000_000
SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
DUE_S = 2 + 3 * 0.5 + 1.5


def wait(until_s: float, **last: Any) -> list[dict[str, Any]]:
    """Heartbeats of a broker that wants to stop from 10 s on, each half a second."""
    told = [beat(10 + step / 2) for step in range(int((until_s - 10) * 2) + 1)]
    return [*told[:-1], {**told[-1], **last}]


def beat(at_s: float) -> dict[str, Any]:
    answer = {"err": 0, "want_shut_down": True, "shut_down": False}
    return {"t": "hb", "inc": 1, "node": 4, "rx_ns": round(at_s * S), **answer}


def history(nemesis: str, begin_s: float, end_s: float) -> History:
    ops = []
    for at_s, f, result in ((begin_s, "inject", "outcome"), (end_s, "heal", "evidence")):
        value = {"id": 1, "nemesis": nemesis, result: "installed"}
        ops.append(Op(0, round(at_s * S), NEMESIS, "info", f=f, value=value))
    return History(ops)


def late(events: list[dict[str, Any]], past: History | None = None, **more: Any) -> int:
    return len(late_shutdowns(past or History(()), {"n4": events, **more}, SETTINGS)[1])


def test_a_broker_that_is_told_to_wait_for_longer_than_anybody_could_need_is_late() -> None:
    checked, found = late_shutdowns(History(()), {"n4": wait(10 + DUE_S + 0.5)}, SETTINGS)
    assert checked == 1
    assert [a.invariant for a in found] == ["L10"]
    assert found[0].time_ns == round((10 + DUE_S) * S)


@pytest.mark.parametrize(
    "events",
    [
        wait(10 + DUE_S),
        wait(10 + DUE_S + 0.5, shut_down=True),
        wait(10 + DUE_S + 0.5, err=None),
        wait(10 + DUE_S + 0.5, inc=2),
    ],
    ids=["in time", "let go", "no answer", "another process"],
)
def test_who_is_let_go_in_time_or_not_answered_is_not(events: list[dict[str, Any]]) -> None:
    assert late(events) == 0


@pytest.mark.parametrize(("nemesis", "excused"), [("stop", False), ("pause", True)])
def test_only_faults_that_end_processes_excuse_nothing(nemesis: str, excused: bool) -> None:
    assert late(wait(20), history(nemesis, 9, 19)) == (0 if excused else 1)


def test_another_controller_begins_anew() -> None:
    claim = {"t": "claim", "rx_ns": 12 * S}
    assert late(wait(20), n1=[claim]) == 0
    assert late(wait(20), n1=[{**claim, "rx_ns": 9 * S}]) == 1


def test_default_settings_give_more_time() -> None:
    assert late_shutdowns(History(()), {"n4": wait(20)}, {})[1] == []
