"""Decides how much of the log's beginning may go: pure policy, from sizes and times.

The log may begin at any snapshot, never before the oldest one is useless: as long as log and
snapshots are too large, or the oldest snapshot is too old, and there is a next one, the oldest
goes and the log begins at the next. Records are never dropped for their own age (KAFKA-14238).
Source: Kafka's KafkaRaftLog.maybeClean; KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from node.core.types import OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Retention:
    """``metadata.max.retention.bytes`` and ``.ms``; a negative one means without limit."""

    max_bytes: int = 100 * 1024 * 1024
    max_ms: int = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SnapshotAge:
    """A snapshot: size in bytes, and when its last record was appended, in ms since 1970."""

    id: OffsetAndEpoch
    size: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """A segment file: its first offset and its size in bytes."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The log begins at ``start``; older snapshots go, the oldest first, each for its reason."""

    start: OffsetAndEpoch
    deleted: tuple[OffsetAndEpoch, ...]
    reasons: tuple[str, ...]


def plan_cleaning(
    snapshots: Sequence[SnapshotAge],
    segments: Sequence[SegmentSize],
    log_start: int,
    *,
    now_ms: int,
    retention: Retention,
) -> Cleaning | None:
    """Decide what to clean now; None for nothing.

    Args:
        snapshots: All complete ones, oldest first.
        segments: All, in offset order; the last is the one being written.
        log_start: Where the log begins.
        now_ms: The time, in ms since 1970.
        retention: The limits.
    """
    deleted: list[OffsetAndEpoch] = []
    reasons: list[str] = []
    left = list(snapshots)
    while len(left) > 1 and left[1].id.offset > log_start:
        reason = _too_large(left, segments, log_start, retention) or _too_old(
            left[0], now_ms, retention
        )
        if reason is None:
            break
        deleted.append(left.pop(0).id)
        reasons.append(reason)
        log_start = left[0].id.offset
    return Cleaning(left[0].id, tuple(deleted), tuple(reasons)) if deleted else None


def removable_segments(bases: Sequence[int], log_start: int) -> int:
    """Count the first segments that lie wholly below ``log_start``; never the last one."""
    return sum(1 for following in bases[1:] if following <= log_start)


def _too_large(
    snapshots: Iterable[SnapshotAge],
    segments: Sequence[SegmentSize],
    log_start: int,
    retention: Retention,
) -> str | None:
    gone = removable_segments([segment.base_offset for segment in segments], log_start)
    log_bytes = sum(segment.size for segment in segments[gone:])
    snapshot_bytes = sum(snapshot.size for snapshot in snapshots)
    if retention.max_bytes < 0 or log_bytes + snapshot_bytes <= retention.max_bytes:
        return None
    return (
        f"log ({log_bytes} bytes) and snapshots ({snapshot_bytes} bytes) "
        f"are larger than {retention.max_bytes} bytes"
    )


def _too_old(oldest: SnapshotAge, now_ms: int, retention: Retention) -> str | None:
    age_ms = now_ms - oldest.timestamp_ms
    if retention.max_ms < 0 or age_ms <= retention.max_ms:
        return None
    return f"it is {age_ms} ms old, older than {retention.max_ms} ms"
