"""The ``producer-ids`` workload and its checker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.producer_ids import producer_ids
from harness.contracts.checker import RunData
from harness.history.ops import History, Op
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid

SPEC = RunSpec(
    seed=4,
    workload="producer-ids",
    nemeses=("kill",),
    observers=1,
    time_limit_s=5,
    rate_hz=20,
    concurrency=3,
)


def ops(*each: tuple[int, str, Any]) -> History:
    """Ops of the form (process, type, value), one after the other."""
    return History(
        Op(n, n, process, type_, "allocate", value)  # type: ignore[arg-type]
        for n, (process, type_, value) in enumerate(each)
    )


def judge(*each: tuple[int, str, Any]) -> CheckResult:
    return producer_ids(RunData(SPEC, ops(*each)))


def test_blocks_that_do_not_overlap_are_valid() -> None:
    result = judge(
        (0, "invoke", None),
        (1, "invoke", None),
        (0, "ok", [1000, 1000]),
        (1, "ok", [0, 1000]),
        (1, "invoke", None),
        (1, "info", None),
        (2, "invoke", None),
        (2, "ok", [3000, 1000]),
    )
    assert result.valid is Valid.VALID
    assert result.checked == {"C11": 3, "S34": 3, "C1": 0}
    assert result.stats == {"unknown": 1}


@pytest.mark.parametrize("second", [[0, 1000], [999, 1], [500, 2000], [0, 1]])
def test_an_id_that_is_given_twice_is_found(second: list[int]) -> None:
    result = judge(
        (0, "invoke", None), (1, "invoke", None), (0, "ok", [0, 1000]), (1, "ok", second)
    )
    assert result.valid is Valid.INVALID
    assert [a.invariant for a in result.anomalies] == ["C11"]
    assert result.anomalies[0].ops == (0, 2, 1, 3) or result.anomalies[0].ops == (1, 3, 0, 2)


def test_a_wide_block_overlaps_all_that_it_covers() -> None:
    result = judge(
        (0, "invoke", None),
        (1, "invoke", None),
        (2, "invoke", None),
        (0, "ok", [0, 3000]),
        (1, "ok", [1000, 100]),
        (2, "ok", [2000, 100]),
    )
    assert [a.invariant for a in result.anomalies] == ["C11", "C11"]


def test_a_later_block_that_is_lower_is_found() -> None:
    result = judge(
        (0, "invoke", None), (0, "ok", [1000, 1000]), (1, "invoke", None), (1, "ok", [0, 1000])
    )
    assert [a.invariant for a in result.anomalies] == ["S34"]


@pytest.mark.parametrize("value", [None, [0], [-1, 1000], [0, 0], "block"])
def test_what_is_no_block_is_found(value: Any) -> None:
    result = judge((0, "invoke", None), (0, "ok", value))
    assert [a.invariant for a in result.anomalies] == ["C11"]


def test_a_block_by_an_epoch_that_nobody_has_is_found() -> None:
    history = History(
        op.with_(f="allocate-stale") if op.process == 1 else op
        for op in ops(
            *((0, "invoke", None), (0, "ok", [0, 9])),
            *((1, "invoke", None), (1, "ok", None), (1, "invoke", None), (1, "ok", [9, 9])),
        )
    )
    result = producer_ids(RunData(SPEC, history))
    assert [(a.invariant, a.ops) for a in result.anomalies] == [("C1", (4, 5))]
    assert result.checked["C1"] == 2


@pytest.mark.parametrize(
    ("ids", "wrong"), [([1000, 1001], 0), ([1000, 1000], 1), ([7], 1), ([1000, 7, 8], 2)]
)
def test_an_id_of_a_producer_that_somebody_else_has_is_found(ids: list[int], wrong: int) -> None:
    history = History(
        op.with_(f="init") if op.process == 1 else op
        for op in ops(
            *((0, "invoke", None), (1, "invoke", None), (0, "ok", [0, 1000]), (1, "ok", ids)),
            *((1, "invoke", None), (1, "ok", [500_000])),  # later, of any block
            *((1, "invoke", None), (1, "ok", [400_000])),
        )
    )
    result = producer_ids(RunData(SPEC, history))
    assert [a.invariant for a in result.anomalies] == ["C11"] * wrong
    assert result.checked == {"C11": 3 + len(ids), "S34": 1, "C1": 0}


def test_nothing_given_is_nothing_judged() -> None:
    assert judge((0, "invoke", None), (0, "fail", None)).valid is Valid.UNKNOWN


def test_a_healthy_cluster_gives_blocks_through_kills() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = [op for op in run.data.history.clients() if op.type == "ok"]
    given = [op for op in done if op.f == "allocate"]
    assert len(given) > 30
    assert {op.value[1] for op in given} == {1000}
    assert any(op.f == "allocate-stale" for op in done)


def test_brokers_give_producers_ids_through_kills() -> None:
    run = simulate(Plan.simulated(replace(SPEC, concurrency=5, observers=2, time_limit_s=15)))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = [op for op in run.data.history.clients() if op.type == "ok" and op.f == "init"]
    assert len({id_ for op in done for id_ in op.value}) > 2500, "two brokers give of two blocks"
