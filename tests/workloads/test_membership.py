"""The ``membership`` workload and its checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkers.membership import membership
from harness.contracts.checker import RunData
from harness.errors import UsageError
from harness.faults.choice import select
from harness.history.ops import History, Op, OpType
from harness.registry import workloads
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

SPEC = RunSpec(
    seed=1,
    workload="membership",
    nemeses=("kill",),
    observers=0,
    time_limit_s=6,
    rate_hz=20,
    concurrency=3,
    settings={"krucible.quorum": "dynamic"},
)
Step = tuple[int, OpType, str, Any]


def judge(*steps: Step, events: Sequence[dict[str, Any]] = ()) -> CheckResult:
    """Steps of the form (process, type, f, value), each at its own moment."""
    ops = [Op(n, n, p, type_, f, value) for n, (p, type_, f, value) in enumerate(steps)]
    return membership(RunData(SPEC, History(ops), events={"n2": tuple(events)}))


def change(process: int, f: str, node: str, end: OpType = "ok") -> tuple[Step, Step]:
    value = {"node": node}
    return (process, "invoke", f, value), (process, end, f, value)


def look(process: int, *voters: str) -> tuple[Step, Step]:
    return (process, "invoke", "voters", None), (process, "ok", "voters", list(voters))


def test_voters_that_are_what_was_confirmed_are_valid() -> None:
    result = judge(
        *change(1, "remove-voter", "n1"),
        *look(2, "n2", "n3"),
        *change(3, "add-voter", "n1", "fail"),
        *look(4, "n2", "n3"),
        *change(5, "restore", "n1"),
        *look(6, "n1", "n2", "n3"),
    )
    assert result.valid is Valid.VALID, result.anomalies
    assert result.checked == {"S17": 3, "L6": 1}


@pytest.mark.parametrize(
    ("steps", "invariant"),
    [
        ([*change(1, "remove-voter", "n1"), *look(2, "n1", "n2")], "S17"),
        ([*change(1, "add-voter", "n1"), *look(2, "n2")], "S17"),
        (
            [
                *change(1, "remove-voter", "n1"),
                *change(2, "restore", "n1", "info"),
                *look(3, "n2"),
            ],
            "L6",
        ),
    ],
)
def test_a_change_that_is_lost_or_does_not_end_is_found(steps: Any, invariant: str) -> None:
    assert [a.invariant for a in judge(*steps).anomalies] == [invariant]


@pytest.mark.parametrize(("at_ns", "told"), [(0, True), (3, True), (4, False)])
def test_a_voter_that_adds_itself_again_is_told_from_one_that_was_never_removed(
    at_ns: int, told: bool
) -> None:
    """KAFKA-19850: with auto-join a removed voter that runs asks for its place at once."""
    steps = [*change(1, "remove-voter", "n1"), *look(2, "n1", "n2")]
    without = {"t": "voters", "rx_ns": at_ns, "off": 5, "set": [[2, None]]}
    before = {"t": "voters", "rx_ns": 1, "off": 4, "set": [[1, None], [2, None]]}
    (anomaly,) = judge(*steps, events=[before, without]).anomalies
    again = " again, which nobody asked for" if told else ""
    assert anomaly.message == f"n1 was removed, and is a voter{again} (op 1, looked at by op 3)"


@pytest.mark.parametrize("end", ["ok", "info"])
def test_what_may_have_followed_excuses(end: OpType) -> None:
    remove, add = change(1, "remove-voter", "n1"), change(2, "add-voter", "n1", end)
    for voters in (("n1", "n2"), ("n2",)):
        together = judge(remove[0], add[0], remove[1], add[1], *look(3, *voters))
        assert together.valid is Valid.VALID


def test_nothing_confirmed_is_nothing_judged() -> None:
    assert judge(*change(1, "add-voter", "n1", "fail"), *look(2, "n2")).valid is Valid.UNKNOWN
    assert judge(*change(1, "add-voter", "n1")).valid is Valid.UNKNOWN


def test_a_static_quorum_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match=r"krucible\.quorum=dynamic"):
        workloads.get("membership")(RunSpec(seed=1))


@pytest.mark.parametrize("name", ["membership", "disk-wipe"])
def test_faults_that_change_the_voters_too_are_refused_and_not_among_all(name: str) -> None:
    with pytest.raises(UsageError, match=f"nemesis '{name}' both change the voters"):
        workloads.get("membership")(replace(SPEC, nemeses=("kill", name)))
    assert name not in {chosen for chosen, _ in select(["all"], SPEC)}
    assert name in {chosen for chosen, _ in select(["all"], replace(SPEC, workload="register"))}


def test_a_healthy_cluster_changes_its_voters_through_kills() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = {op.f for op in run.data.history.clients() if op.type == "ok"}
    assert done == {"read", "write", "remove-voter", "add-voter", "restore", "voters"}
