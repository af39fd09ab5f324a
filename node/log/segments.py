"""Creates and drops segment files so that a crash in between is harmless."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.log.disk import Disk
from node.log.layout import segment_name
from node.log.segment import Segment


def create_segment(disk: Disk, directory: Path, base_offset: int) -> Segment:
    """A new empty segment, its name durable: else a crash could lose records that were flushed."""
    path = directory / segment_name(base_offset)
    file = disk.open(path, create=True)
    disk.fsync_dir(directory)
    return Segment(path, base_offset, file, base_offset)


def drop_segments(disk: Disk, directory: Path, segments: Sequence[Segment]) -> None:
    """Remove files, the last first, durably; their handles stay open.

    Durable before the segment in front of them is cut: a segment that came back from the dead
    must not fit behind what is written there later.
    """
    for segment in reversed(segments):
        disk.unlink(segment.path)
    if segments:
        disk.fsync_dir(directory)


def drop_first_segments(disk: Disk, directory: Path, segments: Sequence[Segment]) -> None:
    """Remove files from the beginning of the log, durably one by one; their handles stay open.

    One by one, because a hole in the middle would make the next start drop all behind it.
    """
    for segment in segments:
        disk.unlink(segment.path)
        disk.fsync_dir(directory)


def restart_segments(
    disk: Disk, directory: Path, segments: Sequence[Segment], base_offset: int
) -> Segment:
    """Remove all segments and begin the log anew at ``base_offset``; old handles stay open."""
    drop_segments(disk, directory, segments)
    return create_segment(disk, directory, base_offset)
