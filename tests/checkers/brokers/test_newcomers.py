"""L10, of brokers that come back and are refused."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.brokers.newcomers import DUPLICATE, turned_away
from checkers.brokers.sessions import Service
from harness.contracts.checker import RunData
from harness.history.ops import History, Op, OpType
from harness.spec import RunSpec

S = 1_000_000_000
B = 1001
FENCED = Service((B, 5), 1 * S, 3 * S)
SPEC = RunSpec(1, settings={"broker.session.timeout.ms": "1000"})  # over after 1.5 s at most

Said = tuple[float, str, OpType, int | None]  # when, what, how it ended, of which broker
BEAT: Said = (1.0, "heartbeat", "ok", B)
FIRST: Said = (1.0, "register", "ok", B)
REFUSED: Said = (6.0, "register", "fail", B)


def found(
    *said: Said,
    service: Service | None = FENCED,
    error: str = DUPLICATE,
    cut: str = "timed-out",
    fenced: bool = False,
    epoch: int = 5,
) -> list[str]:
    ops = []
    for n, (at_s, f, type_, broker) in enumerate(said):
        value: dict[str, Any] = {}
        if broker is not None:
            value = {"broker": broker, "fenced": fenced, "epoch": epoch}
        told = {"fail": error, "info": cut}.get(type_)
        ops.append(Op(2 * n, int(at_s * S), n, "invoke", f, None))
        ops.append(Op(2 * n + 1, int((at_s + 0.1) * S), n, type_, f, value, error=told))
    run = RunData(SPEC, History(ops))
    _, anomalies = turned_away(run, [] if service is None else [service])
    return [anomaly.message for anomaly in anomalies]


def test_a_fenced_broker_of_which_nothing_was_heard_for_long_may_come_back() -> None:
    (message,) = found(BEAT, REFUSED)
    assert "nobody had spoken for it for 4.900 s; its session is 1 s" in message
    assert found(BEAT, REFUSED, service=None, fenced=True), "it was told so"
    assert found(FIRST, REFUSED, service=None), "nobody begins unfenced"
    assert found(BEAT, (5.0, "heartbeat", "ok", B + 1), REFUSED), "another broker spoke"
    assert found(BEAT, (5.0, "register", "fail", B), REFUSED), "a refusal is no word heard"


def test_an_incarnation_that_registers_again_may_be_in_service() -> None:
    """The log does not say that it serves: a snapshot does (seed 42 of the swarm, ``brokers``)."""
    assert not found(FIRST, (2.0, "register", "ok", B), REFUSED, service=None)


@pytest.mark.parametrize("type_", ["ok", "info"])
def test_who_may_have_been_heard_of_in_a_session_may_be_refused(type_: OpType) -> None:
    assert not found(BEAT, (4.5, "heartbeat", type_, B), REFUSED)
    assert not found(BEAT, (4.5, "register", type_, B), REFUSED)


def test_what_had_no_answer_may_be_heard_at_any_time() -> None:
    assert not found((0.5, "heartbeat", "info", B), BEAT, REFUSED)
    assert not found((0.5, "register", "info", None), BEAT, REFUSED)


def test_what_was_cut_off_is_heard_no_more() -> None:
    assert found((0.5, "heartbeat", "info", B), BEAT, REFUSED, cut="disconnected")
    assert not found((5.0, "heartbeat", "info", B), REFUSED, cut="disconnected")


@pytest.mark.parametrize("end_ns", [None, 7 * S])
def test_a_broker_that_may_be_in_service_may_be_refused(end_ns: int | None) -> None:
    assert not found(BEAT, REFUSED, service=Service((B, 5), 1 * S, end_ns))
    assert found(BEAT, REFUSED, service=Service((B, 5), 8 * S, None), fenced=True), "it came later"


def test_of_a_broker_that_was_told_that_it_serves_the_log_must_say_that_it_is_fenced() -> None:
    """That record may be gone for a snapshot; a new controller gives who serves a session anew."""
    assert not found(BEAT, REFUSED, service=None)
    assert found(BEAT, REFUSED)


def test_other_refusals_are_not_judged() -> None:
    assert not found(BEAT, REFUSED, error="not-controller")
