"""The ``brokers`` workload and its checker."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.brokers.plugin import brokers
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.errors import HistoryFormatError
from harness.history.ops import History, Op, OpType
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

SPEC = RunSpec(
    seed=3,
    workload="brokers",
    nemeses=("kill",),
    time_limit_s=8,
    rate_hz=20,
    concurrency=3,
    settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
)
S = 1_000_000_000
B = 1001


def registered(epoch: int, incarnation: str = "a") -> tuple[str, OpType, dict[str, Any]]:
    return "register", "ok", {"broker": B, "epoch": epoch, "incarnation": incarnation}


def refused(incarnation: str) -> tuple[str, OpType, dict[str, Any]]:
    return "register", "fail", {"broker": B, "incarnation": incarnation}


def beat(
    epoch: int = 5,
    offset: int = 9,
    f: str = "heartbeat",
    type_: OpType = "ok",
    *,
    fenced: bool = False,
    caught_up: bool = True,
    shut_down: bool = False,
) -> tuple[str, OpType, dict[str, Any]]:
    said = {"broker": B, "epoch": epoch, "offset": offset}
    return f, type_, {**said, "fenced": fenced, "caught_up": caught_up, "shut_down": shut_down}


def history(*ends: tuple[str, OpType, dict[str, Any]], every_s: float = 0.1) -> History:
    """Ops one after the other, each as long as the pause behind it."""
    ops, step = [], int(every_s * S / 2)
    for n, (f, type_, value) in enumerate(ends):
        ops.append(Op(2 * n, 2 * n * step, n, "invoke", f, None, key="b0"))
        ops.append(Op(2 * n + 1, (2 * n + 1) * step, n, type_, f, value, key="b0"))
    return History(ops)


def change(offset: int, fenced: int) -> LogBatch:
    fields = {"broker_id": B, "broker_epoch": 5, "fenced": fenced}
    record = {"offset": offset, "type": "BrokerRegistrationChangeRecord", "fields": fields}
    return LogBatch(offset, offset, 1, 0, False, (record,))


def judge(
    *ends: tuple[str, OpType, dict[str, Any]], changes: dict[float, int] | None = None
) -> CheckResult:
    """With the times, in seconds, at which the broker was unfenced (-1) and fenced (1)."""
    log, events = [], [{"t": "claim", "ep": 1, "ts": 0, "rx_ns": 0}]
    moments = dict(changes or {})
    last = max(moments, default=0.0)
    ticks = {n / 2: 0 for n in range(1, int(last * 2) + 1)}
    for offset, (at_s, fenced) in enumerate(sorted({**ticks, **moments}.items())):
        log.append(change(offset, fenced) if fenced in (1, -1) else change(offset, 0))
        ns = int(at_s * S)
        events.append({"t": "hwm", "as": "leader", "ep": 1, "v": offset + 1, "ts": ns, "rx_ns": ns})
    run = RunData(
        SPEC, history(*ends), events={"n1": tuple(events)}, logs={"n1": tuple(log)}, voters=("n1",)
    )
    return brokers(run)


def test_a_life_in_good_order_is_valid() -> None:
    result = judge(
        registered(5),
        registered(5),
        beat(offset=4, fenced=True, caught_up=False),
        beat(),
        beat(offset=4, caught_up=False),  # it has been let in before
        registered(9, "b"),
        beat(9, f="revive"),
        changes={0.31: -1, 1.6: 1},
    )
    assert result.valid is Valid.VALID, result.anomalies
    assert result.checked == {"C1": 7, "C6": 2, "C7": 4, "C12": 1, "L10": 1}


@pytest.mark.parametrize(
    ("ends", "invariant"),
    [
        ([registered(5), registered(6)], "C1"),  # the same incarnation, another epoch
        ([registered(5), registered(4, "b")], "C1"),
        ([registered(5), registered(7, "b"), registered(5)], "C1"),  # it was another since
        ([refused("b"), registered(5), registered(6)], "C1"),
        ([registered(5), registered(9, "b"), beat(5)], "C1"),  # nobody has that epoch any more
        ([beat(offset=4)], "C6"),
        ([beat(offset=4, fenced=True, caught_up=True)], "C6"),
        ([beat(offset=4, caught_up=False)], "C6"),
        ([beat(f="revive", fenced=True)], "L10"),
        ([beat(f="fence", fenced=True, shut_down=True)], "C7"),
    ],
)
def test_what_a_broker_must_not_be_told_is_found(ends: Any, invariant: str) -> None:
    assert {a.invariant for a in judge(*ends).anomalies} == {invariant}


@pytest.mark.parametrize(
    "between",
    [
        registered(7, "b"),
        ("register", "info", {"broker": B, "incarnation": "b"}),  # nobody knows
        ("register", "info", None),
    ],
)
def test_an_incarnation_that_another_took_the_place_of_may_come_back_as_a_new_one(
    between: Any,
) -> None:
    result = judge(registered(5), between, registered(9), registered(9))
    assert result.valid is Valid.VALID, result.anomalies


def test_the_end_of_a_shutdown_that_was_begun_before_is_no_failure_to_come_back() -> None:
    stops = beat(f="shut-down")
    assert judge(stops, beat(f="revive", fenced=True, shut_down=True)).valid is Valid.VALID


def test_two_that_come_back_at_once_may_register_it_twice() -> None:
    """One epoch, two records: the first to say that it has caught up had not, with the second."""
    early = {"broker": B, "epoch": 22, "offset": 22, "caught_up": False, "fenced": True}
    late = {**early, "offset": 23, "caught_up": True, "fenced": False}
    ends = [{**each, "shut_down": False} for each in (late, early)]
    ops = [Op(n, n * S, n, "invoke", "revive", None, key="b0") for n in (0, 1)]
    ops += [Op(n + 2, (n + 2) * S, n, "ok", "revive", ends[n], key="b0") for n in (0, 1)]
    together = brokers(RunData(SPEC, History(ops), voters=("n1",)))
    assert together.valid is Valid.VALID, together.anomalies
    turns = ((ops[0], 0), (ops[2], 2), (ops[1], 3), (ops[3], 4))
    one_by_one = [op.with_(index=n, time_ns=s * S) for n, (op, s) in enumerate(turns)]
    apart = brokers(RunData(SPEC, History(one_by_one), voters=("n1",)))
    assert [a.invariant for a in apart.anomalies] == ["L10"]


def test_what_was_asked_for_may_be_done_though_nobody_told_the_broker() -> None:
    """The broker says that it has caught up, and the power fails before it hears."""
    told = {"broker": B, "epoch": 5, "offset": 9}
    late = beat(offset=4, caught_up=False)
    assert judge(registered(5), ("heartbeat", "info", told), late).valid is Valid.VALID
    assert judge(registered(5), ("heartbeat", "fail", told), late).valid is Valid.INVALID


def test_a_session_that_ends_early_is_found() -> None:
    early = judge(beat(), beat(), changes={0.05: -1, 0.9: 1})
    assert [a.invariant for a in early.anomalies] == ["C12"]
    assert judge(beat(), beat(), changes={0.05: -1, 1.2: 1}).valid is Valid.VALID


@pytest.mark.parametrize(
    "why",
    [
        beat(f="fence", fenced=True),
        beat(f="shut-down", fenced=True),
        beat(type_="info"),  # it may have been heard at another time
        beat(f="fence", type_="info"),
    ],
)
def test_a_session_that_ends_for_another_reason_is_not_early(why: Any) -> None:
    assert judge(beat(), why, changes={0.01: -1, 0.3: 1}).valid is Valid.VALID


def test_a_shutdown_that_was_asked_for_earlier_may_end_with_any_heartbeat() -> None:
    ends = beat(f="shut-down"), beat(), beat(fenced=True, shut_down=True)
    assert judge(*ends, changes={0.01: -1, 0.24: 1}).valid is Valid.VALID
    assert judge(*ends[:2], beat(fenced=True), changes={0.01: -1, 0.24: 1}).valid is Valid.INVALID


def test_a_session_that_does_not_end_is_found() -> None:
    late = judge(beat(), beat(), changes={0.05: -1, 5.5: 0})
    assert [a.invariant for a in late.anomalies] == ["C12"]
    assert judge(beat(), changes={0.05: -1, 9.0: 1}).valid is Valid.INVALID
    assert judge(beat(), changes={0.05: -1, 4.0: 0}).valid is Valid.VALID  # not due yet
    assert judge(beat(type_="info"), beat(), changes={0.05: -1, 9.0: 0}).valid is Valid.VALID


def test_nothing_answered_is_nothing_judged() -> None:
    assert judge(beat(type_="fail")).valid is Valid.UNKNOWN


def test_an_answer_that_tells_nothing_is_no_history_of_ours() -> None:
    with pytest.raises(HistoryFormatError, match="heartbeat"):
        judge(("heartbeat", "ok", {"broker": B}))


def test_a_healthy_cluster_keeps_its_brokers_through_kills() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    ops = list(run.data.history.clients())
    done = {op.f for op in ops if op.type == "ok"}
    assert {"register", "heartbeat", "fence", "shut-down", "revive"} <= done
    assert "duplicate-broker-registration" in {op.error for op in ops}
    checked = next(r.checked for r in run.judgement.results if r.checker == "brokers")
    assert all(count for name, count in checked.items() if name != "C7"), "nobody had to wait"
