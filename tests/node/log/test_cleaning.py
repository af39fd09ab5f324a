"""Prefix cleaning: which snapshots go, and where the log begins then."""

from __future__ import annotations

import pytest

from node.core.types import OffsetAndEpoch
from node.log.cleaning import (
    Retention,
    SegmentSize,
    SnapshotAge,
    plan_cleaning,
    removable_segments,
)

NEVER = 1 << 60
SEGMENTS = [SegmentSize(0, 100), SegmentSize(10, 100), SegmentSize(20, 100), SegmentSize(30, 50)]


def at(offset: int, *, size: int = 10, time: int = 0) -> SnapshotAge:
    return SnapshotAge(OffsetAndEpoch(offset, 1), size, time)


def planned(
    snapshots: list[SnapshotAge],
    *,
    max_bytes: int = -1,
    max_ms: int = -1,
    log_start: int = 0,
    now: int = 1000,
) -> tuple[int, list[int]] | None:
    """The new log start, and the end offsets of the snapshots that go."""
    plan = plan_cleaning(
        snapshots, SEGMENTS, log_start, now_ms=now, retention=Retention(max_bytes, max_ms)
    )
    if plan is None:
        return None
    return plan.start.offset, [snapshot.offset for snapshot in plan.deleted]


@pytest.mark.parametrize(
    ("max_bytes", "want"),
    [
        (380, None),  # 350 of log and 30 of snapshots: just within
        (379, (20, [10])),  # two segments go with it: 150 + 20
        (170, (20, [10])),
        (169, (35, [10, 20])),  # the active segment stays: 50 + 10
        (0, (35, [10, 20])),  # the last snapshot always stays
        (-1, None),
    ],
)
def test_by_size_the_oldest_go_until_the_rest_is_small_enough(
    max_bytes: int, want: tuple[int, list[int]] | None
) -> None:
    assert planned([at(10), at(20), at(35)], max_bytes=max_bytes) == want


@pytest.mark.parametrize(
    ("max_ms", "want"),
    [
        (900, None),
        (899, (20, [10])),
        (800, (20, [10])),
        (799, (35, [10, 20])),
        (0, (35, [10, 20])),
        (-1, None),
    ],
)
def test_by_time_the_oldest_snapshot_decides(
    max_ms: int, want: tuple[int, list[int]] | None
) -> None:
    snapshots = [at(10, time=100), at(20, time=200), at(35, time=300)]
    assert planned(snapshots, max_ms=max_ms) == want


@pytest.mark.parametrize("snapshots", [[], [at(10)]])
def test_nothing_goes_with_less_than_two_snapshots(snapshots: list[SnapshotAge]) -> None:
    assert planned(snapshots, max_bytes=0, max_ms=0) is None


def test_the_bootstrap_snapshot_goes_like_any_other() -> None:
    assert planned([at(0), at(20)], max_bytes=0) == (20, [0])


def test_nothing_goes_when_the_log_begins_later_already() -> None:
    assert planned([at(10), at(20)], max_bytes=0, log_start=20) is None
    assert planned([at(10), at(20), at(35)], max_bytes=0, log_start=20) is None


def test_each_deletion_has_its_reason() -> None:
    plan = plan_cleaning(
        [at(10, time=0), at(20, time=0), at(35, time=1000)],
        SEGMENTS,
        0,
        now_ms=1000,
        retention=Retention(max_bytes=200, max_ms=500),
    )
    assert plan is not None
    size, age = plan.reasons
    assert "350 bytes" in size
    assert "1000 ms old" in age


@pytest.mark.parametrize(
    ("start", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 3), (NEVER, 3)]
)
def test_only_segments_wholly_below_the_log_start_go_and_never_the_last(
    start: int, count: int
) -> None:
    assert removable_segments([0, 10, 20, 30], start) == count
