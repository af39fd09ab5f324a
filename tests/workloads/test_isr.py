"""The ``isr`` workload and its checker."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checkers.isr import isr
from harness.contracts.checker import RunData
from harness.errors import HistoryFormatError
from harness.history.ops import History, Op
from harness.kafka.broker import Cast
from harness.kafka.fleet import Fleet
from harness.kafka.route import Cluster
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid
from workloads.isr import Shared

SPEC = RunSpec(
    seed=2,
    workload="isr",
    nemeses=("kill",),
    observers=1,
    time_limit_s=8,
    rate_hz=20,
    concurrency=4,
    settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
)


def alter(
    pep: int,
    members: tuple[int, ...],
    *,
    lep: int = 0,
    got_pep: int | None = None,
    epochs: dict[int, int] | None = None,
    **got: Any,
) -> dict[str, Any]:
    """A granted change, as the workload tells it; broker n has epoch 10 n."""
    return {
        "asked": {
            "leader": [1, 10],
            "lep": lep,
            "pep": pep,
            "isr": [[b, 10 * b] for b in members],
            "epochs": [[b, (epochs or {}).get(b, 10 * b)] for b in (1, 2, 3)],
        },
        "got": {
            "leader": 1,
            "lep": lep,
            "pep": pep + 1 if got_pep is None else got_pep,
            "isr": list(members),
            **got,
        },
    }


def judge(*done: tuple[str, Any], together: bool = False) -> CheckResult:
    """Ops of the form (f, value when ok), one after the other or all at the same time."""
    count = len(done)
    ops = []
    for n, (f, value) in enumerate(done):
        begin, end = (n, count + n) if together else (2 * n, 2 * n + 1)
        ops.append(Op(begin, begin, n, "invoke", f, None, key="p0"))
        ops.append(Op(end, end, n, "ok", f, value, key="p0"))
    return isr(RunData(SPEC, History(sorted(ops, key=lambda op: op.index))))


def look(lep: int) -> tuple[str, dict[str, Any]]:
    return "describe", {"leader": 1, "lep": lep, "isr": [1]}


def test_changes_that_follow_each_other_are_valid() -> None:
    result = judge(
        ("alter", alter(0, (1, 2))),
        look(0),
        ("alter", alter(1, (1, 2), got_pep=1)),  # it was so already
        ("alter", alter(4, (1, 3), lep=2)),  # others had changed it in between
        look(2),
    )
    assert result.valid is Valid.VALID, result.anomalies
    assert result.checked == {"C3": 3, "C4": 5, "C5": 3}
    assert result.stats == {"changed": 2, "partitions": 1}


@pytest.mark.parametrize(
    ("done", "invariant"),
    [
        ([("alter", alter(0, (1, 2), isr=[1, 2, 3]))], "C5"),
        ([("alter", alter(0, (1, 2), leader=3))], "C3"),
        ([("alter", alter(0, (1, 2), got_pep=2))], "C4"),
        ([("alter", alter(3, (1,), got_pep=2))], "C4"),
        ([("alter", alter(0, (1, 2), epochs={2: 21}))], "C5"),
        ([("alter", alter(0, (1, 2), epochs={1: 11}))], "C5"),
        ([look(3), ("alter", alter(0, (1,), lep=2))], "C5"),
        ([("alter", alter(7, (1,))), ("alter", alter(6, (1,), got_pep=6))], "C5"),
        ([("alter", alter(0, (1,), lep=4)), look(3)], "C4"),
        ([look(4), look(3)], "C4"),
    ],
)
def test_what_must_not_be_granted_or_seen_is_found(done: Any, invariant: str) -> None:
    assert {a.invariant for a in judge(*done).anomalies} == {invariant}


def test_two_changes_of_one_partition_epoch_are_found_though_they_overlap() -> None:
    one, other = ("alter", alter(0, (1, 2))), ("alter", alter(0, (1, 3)))
    result = judge(one, other, together=True)
    assert {a.invariant for a in result.anomalies} == {"C5", "C4"}
    assert judge(one, ("alter", alter(1, (1, 3))), together=True).valid is Valid.VALID


def test_one_partition_epoch_is_one_state() -> None:
    result = judge(
        ("alter", alter(0, (1, 2))), ("alter", alter(1, (1, 3), got_pep=1)), together=True
    )
    assert {a.invariant for a in result.anomalies} == {"C4"}


def test_nothing_granted_is_nothing_judged() -> None:
    assert judge(look(1)).valid is Valid.UNKNOWN


def test_a_change_that_tells_nothing_is_no_history_of_ours() -> None:
    with pytest.raises(HistoryFormatError, match="alter"):
        judge(("alter", {"asked": {}}))


def test_a_healthy_cluster_changes_isrs_through_kills_and_restarts() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    ops = list(run.data.history.clients())
    assert sum(op.f == "alter" and op.type == "ok" for op in ops) > 20
    assert {"invalid-update-version", "ineligible-replica"} <= {op.error for op in ops}
    assert any(op.f == "restart" and op.type == "ok" for op in ops)
    assert all("asked" in op.value for op in ops if op.f == "alter" and op.type == "info")


@pytest.mark.parametrize(("partitions", "indexes"), [(1, [0, 0, 0, 0]), (3, [0, 1, 2, 0])])
def test_the_ops_of_each_key_are_about_another_partition(
    partitions: int, indexes: list[int]
) -> None:
    nowhere: Any = None
    cluster = Cluster({}, {}, nowhere)
    fleet = Fleet(cluster, Cast(Random(1)), 3, 1.0)
    shared = Shared(cluster, fleet, partitions=partitions)
    assert [shared.index_of(f"p{n}") for n in range(4)] == indexes
