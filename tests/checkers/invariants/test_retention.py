"""S23, of snapshots that are deleted: by their age, or by the size of all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.invariants.retention import BYTES, MS, KeptInTime
from checkers.monitor.monitor import Monitor
from tests.support.traces.traces import Trace, one_leader

SETTINGS = {"metadata.max.retention.bytes": "1000", "metadata.max.retention.ms": "60000"}


def told(settings: dict[str, str], op: str = "delete", **fields: int) -> list[str]:
    """Judge a snapshot that goes."""
    trace: Trace = one_leader()
    trace.freeze(2)
    trace.emit(2, "snap", op=op, id=[1, 1], size=100, **fields)
    found = Monitor([KeptInTime.of(settings)]).feed_all(trace.run().events)
    return [anomaly.message for anomaly in found]


@pytest.mark.parametrize(
    ("held", "age_ms", "is_due"),
    [(1000, 60_000, False), (1001, 0, True), (0, 60_001, True), (0, -5, False)],
)
def test_a_snapshot_goes_when_all_are_too_large_or_it_is_too_old(
    held: int, age_ms: int, is_due: bool
) -> None:
    assert (told(SETTINGS, held=held, age_ms=age_ms) == []) is is_due


def test_the_finding_tells_sizes_and_limits() -> None:
    (message,) = told({}, held=5, age_ms=6)
    assert "deleted the snapshot that ends at 1" in message
    assert f"had 5 bytes of {BYTES}, and it was 6 ms old, of {MS}" in message


def test_who_tells_of_no_sizes_is_not_judged() -> None:
    assert told(SETTINGS) == told(SETTINGS, held=0) == told(SETTINGS, age_ms=0) == []
    assert told(SETTINGS, op="reject", held=0, age_ms=0) == []


@given(*[st.integers(-1, 5)] * 4)
def test_a_negative_limit_is_none(max_bytes: int, max_ms: int, held: int, age_ms: int) -> None:
    settings = dict(zip(SETTINGS, map(str, (max_bytes, max_ms)), strict=True))
    due = (max_bytes >= 0 and held > max_bytes) or (max_ms >= 0 and age_ms > max_ms)
    assert bool(told(settings, held=held, age_ms=age_ms)) is not due
    assert told({**settings, "metadata.max.retention.bytes": "-1"}, held=2 * BYTES, age_ms=0)
