"""C1 and C6, of a broker that registers again and gets another epoch, as releases before 3.9 do."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.brokers.plugin import LEFT_IN, brokers
from checkers.brokers.sessions import Sessions
from checkers.brokers.words import words
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import History, Op
from harness.spec import RunSpec
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release

S = 1_000_000_000
B, FIRST, SECOND = 1001, 5, 9
Said = tuple[float, str, dict[str, Any]]
SPEC = RunSpec(1, env="sim")
BEATS = {"caught_up": False, "shut_down": False}
SAID: tuple[Said, ...] = (
    (1.0, "register", {"incarnation": "one", "epoch": FIRST}),
    (2.0, "heartbeat", {**BEATS, "epoch": FIRST, "offset": FIRST, "fenced": False}),
    (3.0, "register", {"incarnation": "one", "epoch": SECOND}),
    (4.0, "heartbeat", {**BEATS, "epoch": SECOND, "offset": SECOND - 1, "fenced": False}),
)


def record(offset: int, type_: str, **fields: Any) -> LogBatch:
    told = {"offset": offset, "type": type_, "fields": {"broker_id": B, **fields}}
    return LogBatch(offset, offset, 1, offset, control=False, records=(told,))


def told(*, fenced: bool, begins: int = 0) -> RunData:
    """Tell of a broker in service that registers again, left in service or not."""
    log = (
        record(FIRST, "RegisterBrokerRecord", broker_epoch=FIRST, fenced=True),
        record(6, "BrokerRegistrationChangeRecord", broker_epoch=FIRST, fenced=-1),
        record(SECOND, "RegisterBrokerRecord", broker_epoch=SECOND, fenced=fenced),
    )
    ops = []
    for n, (at_s, f, value) in enumerate(SAID):
        ops.append(Op(2 * n, int(at_s * S), n, "invoke", f, None))
        answer = {"broker": B, **value}
        ops.append(Op(2 * n + 1, int((at_s + 0.1) * S), n, "ok", f, answer))
    marks = [{"t": "hwm", "v": b.last + 1, "as": "leader", "ep": 1, "ts": b.base * S} for b in log]
    kept = tuple(batch for batch in log if batch.base >= begins)
    return RunData(SPEC, History(ops), {"n1": tuple(marks)}, {"n1": kept}, voters=("n1",))


@pytest.mark.parametrize(("version", "excused"), [("3.7.2", True), ("3.9.2", False)])
def test_who_is_left_in_service_before_it_caught_up_is_told_apart(
    version: str, excused: bool
) -> None:
    found = {each.invariant: each for each in brokers(told(fenced=False)).anomalies}
    assert set(found) == {"C1", "C6"}
    assert found["C6"].message.endswith(LEFT_IN)
    known = known_of([Release(version)])
    for anomaly in found.values():
        assert any(each.covers(anomaly) for each in known) is excused


def test_who_was_let_in_too_early_is_not_excused() -> None:
    (anomaly,) = (a for a in brokers(told(fenced=True)).anomalies if a.invariant == "C6")
    assert not any(each.covers(anomaly) for each in known_of([Release("3.7.2")]))


def test_of_a_registration_that_is_in_no_log_any_more_nobody_knows_how_it_was_left() -> None:
    told_of = {a.invariant for a in brokers(told(fenced=False, begins=SECOND + 1)).anomalies}
    assert told_of == {"C1", "C6"}, "the log is empty: all of it may be to come"
    rest = told(fenced=False)
    later = record(20, "NoOpRecord")
    run = RunData(rest.spec, rest.history, rest.events, {"n1": (later,)}, voters=("n1",))
    assert {a.invariant for a in brokers(run).anomalies} == {"C1"}


@pytest.mark.parametrize("begins", [0, FIRST + 1])
def test_a_new_epoch_ends_the_service_of_the_old_one(begins: int) -> None:
    """Also where the log begins behind the registration that it was (seed 2 of 3.7.2)."""
    run = told(fenced=False, begins=begins)
    services = Sessions(run, words(run.history), run.logs["n1"]).services
    ends = {service.who: service.end_ns for service in services}
    assert ends == {(B, FIRST): SECOND * S, (B, SECOND): None}
