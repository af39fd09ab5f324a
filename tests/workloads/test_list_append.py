"""The ``list-append`` workload and its checker."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from checkers.list_append import list_append
from harness.contracts.checker import RunData
from harness.errors import HistoryFormatError
from harness.history.ops import History, Op, OpType
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

SPEC = RunSpec(
    seed=5,
    workload="list-append",
    nemeses=("kill",),
    time_limit_s=6,
    rate_hz=20,
    concurrency=4,
)
Step = tuple[int, OpType, str, Any]


def judge(*steps: Step) -> CheckResult:
    """Steps of the form (process, type, f, value), each at its own moment."""
    ops = [Op(n, n, p, type_, f, value, key="l0") for n, (p, type_, f, value) in enumerate(steps)]
    return list_append(RunData(SPEC, History(ops)))


def append(process: int, element: int, end: OpType = "ok") -> tuple[Step, Step]:
    return (process, "invoke", "append", element), (process, end, "append", element)


def read(process: int, *seen: int) -> tuple[Step, Step]:
    return (process, "invoke", "read", None), (process, "ok", "read", list(seen))


def test_lists_that_grow_at_their_end_are_valid() -> None:
    result = judge(
        *read(9),
        *append(1, 1),
        *append(2, 2, "info"),
        *append(3, 3, "fail"),
        *read(4, 1),
        *append(5, 4),
        *read(6, 1, 2, 4),
        *append(7, 5),
    )
    assert result.valid is Valid.VALID, result.anomalies
    assert result.checked == {"S17": 4, "S18": 4, "S34": 3}


def test_appends_at_the_same_time_may_come_in_any_order() -> None:
    one, two = append(1, 1), append(2, 2)
    for seen in itertools.permutations((1, 2)):
        assert judge(one[0], two[0], one[1], two[1], *read(3, *seen)).valid is Valid.VALID


@pytest.mark.parametrize(
    ("steps", "invariant"),
    [
        ([*append(1, 1), *read(2, 1, 1)], "S18"),
        ([*read(2, 7)], "S18"),
        ([*read(2, 1), *append(1, 1)], "S18"),
        ([*append(1, 1, "fail"), *read(2, 1)], "S17"),
        ([*append(1, 1), *read(2)], "S34"),  # lost
        ([*append(1, 1), *append(2, 2), *read(3, 2)], "S34"),  # lost before another
        ([*append(1, 1), *append(2, 2), *read(3, 2, 1)], "S34"),  # out of order
        ([*append(1, 1), *append(2, 2, "info"), *read(3, 1, 2), *read(4, 1)], "S34"),  # back
    ],
)
def test_what_no_list_can_do_is_found(steps: Any, invariant: str) -> None:
    assert {a.invariant for a in judge(*steps).anomalies} == {invariant}


def test_reads_that_fork_are_found() -> None:
    ends = [*append(1, 1), *append(2, 2)]
    begun = [ends[0], ends[2]]
    result = judge(*begun, *read(3, 1), *read(4, 2), ends[1], ends[3])
    assert [a.invariant for a in result.anomalies] == ["S34"]
    assert "read as [1] and as [2]" in result.anomalies[0].message


def test_the_cycle_that_is_shown_is_short() -> None:
    many = [step for n in range(1, 40) for step in append(n, n)]
    result = judge(*many, *append(77, 77), *read(99, *range(1, 40)))
    (anomaly,) = result.anomalies
    assert len(anomaly.details["cycle"]) == 2
    assert len(anomaly.ops) == 4


@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_a_real_list_is_valid_and_a_lost_element_is_found(seed: int) -> None:
    rng, steps, state, open_ = Random(seed), list[Step](), list[int](), dict[int, Step]()
    effect: dict[int, Any] = {}
    for n in range(1, 120):
        process = rng.randrange(4)
        if process not in open_:
            f = rng.choice(("append", "read"))
            open_[process] = (process, "invoke", f, n if f == "append" else None)
            steps.append(open_[process])
        elif process not in effect:
            _, _, f, value = open_[process]
            if f == "append":
                state.append(value)
            effect[process] = value if f == "append" else list(state)
        else:
            _, _, f, _ = open_.pop(process)
            steps.append((process, "ok", f, effect.pop(process)))
    assert judge(*steps).valid is Valid.VALID
    done = [v for _, type_, f, v in steps if type_ == "ok" and f == "append"]
    lost = done[0]
    after = [
        (p, t, f, [e for e in v if e != lost] if f == "read" and v else v) for p, t, f, v in steps
    ]
    assert judge(*after, *read(9, *[e for e in state if e != lost])).valid is Valid.INVALID


def test_nothing_read_is_nothing_judged() -> None:
    assert judge(*append(1, 1)).valid is Valid.UNKNOWN


@pytest.mark.parametrize("steps", [[(1, "invoke", "append", None)], [*read(1, 1)[:1]]])
def test_values_that_are_none_of_ours_are_refused(steps: list[Step]) -> None:
    process, _, f, _ = steps[0]
    with pytest.raises(HistoryFormatError, match=f):
        judge(*steps, (process, "ok", f, "x"))


def test_a_healthy_cluster_keeps_lists_through_kills() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    longest = max(
        (op.value for op in run.data.history.clients() if op.f == "read" and op.type == "ok"),
        key=len,
    )
    assert len(longest) > 15
