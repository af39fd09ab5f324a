"""Rows that are made where a run is read: latencies by fault."""

from __future__ import annotations

import gc
import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from checkers.timeline.windows import FaultWindow
from harness.history.ops import NEMESIS, History, Op
from pipeline.ingest import OBJECTS_LEFT_MAX, collected
from pipeline.rows import BUCKETS_PER_DOUBLING, NO_FAULT, latency_rows

MS = 1_000_000


def _op(at: int, process: int | str, kind: str, f: str = "write") -> Op:
    return Op(0, at * MS, process, kind, f)  # type: ignore[arg-type]


def _latencies(history: History, *windows: FaultWindow) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for row in latency_rows("kraft-register/x", history, windows):
        assert row["run"] == "kraft-register/x"
        found.setdefault((row["f"], row["nemesis"]), []).extend([row["bucket"]] * row["count"])
    return {kind: sorted(buckets) for kind, buckets in found.items()}


def _bucket(ms: float) -> int:
    return math.floor(math.log2(ms * 1000) * BUCKETS_PER_DOUBLING)


def test_an_op_counts_for_each_fault_that_may_have_been_in_force() -> None:
    history = History(
        [
            *(_op(0, 1, "invoke"), _op(2, 1, "ok")),
            *(_op(9, 1, "invoke"), _op(13, 1, "ok")),
            *(_op(30, 2, "invoke", "read"), _op(38, 2, "ok", "read")),
            *(_op(40, 2, "invoke"), _op(41, 2, "fail")),
            *(_op(42, 3, "invoke"), _op(43, 3, "info")),
        ]
    )
    found = _latencies(
        history,
        FaultWindow(1, "kill", 10 * MS, "installed", end_ns=12 * MS),
        FaultWindow(2, "partition", 11 * MS, "failed"),  # never healed
        FaultWindow(3, "pause", 0, "skipped"),
    )
    assert found == {
        ("write", NO_FAULT): [_bucket(2)],
        ("write", "kill"): [_bucket(4)],
        ("write", "partition"): [_bucket(4)],
        ("read", "partition"): [_bucket(8)],
    }


def test_a_history_with_a_hole_is_measured_as_far_as_it_goes() -> None:
    """Lines that nobody can read are left out: an answer may have lost its question."""
    history = History(
        [
            _op(1, 1, "ok"),
            *(_op(2, 2, "invoke"), _op(3, 2, "invoke"), _op(5, 2, "ok")),
            _op(6, NEMESIS, "info", "inject"),
        ]
    )
    assert _latencies(history) == {("write", NO_FAULT): [_bucket(2)]}


@given(st.lists(st.integers(0, 5_000_000_000), max_size=40))
def test_no_op_is_lost_and_none_is_faster_than_a_microsecond(took_ns: list[int]) -> None:
    ops = [
        each
        for n, took in enumerate(took_ns)
        for each in (Op(0, n, n, "invoke", "read"), Op(0, n + took, n, "ok", "read"))
    ]
    rows = latency_rows("a/b", History(ops), [])
    assert Counter({row["bucket"]: row["count"] for row in rows}) == Counter(
        math.floor(math.log2(max(took / 1000, 1)) * BUCKETS_PER_DOUBLING) for took in took_ns
    )


def test_garbage_is_collected_when_there_is_much_of_it() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    def knots() -> int:
        return sum(isinstance(each, Knot) for each in gc.get_objects())

    with collected() as collect:
        assert not gc.isenabled()
        for _ in range(10):
            Knot()
        collect()
        assert knots() == 10, "little is let be"
        for _ in range(OBJECTS_LEFT_MAX):
            Knot()
        collect()
        assert knots() == 0
    assert gc.isenabled()
