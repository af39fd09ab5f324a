"""Opening a log directory after whatever happened to it.

Every batch of every segment is checked: length, CRC-32C, contiguous offsets, epochs that never
fall. At the first that fails the file is cut there and all later segments are dropped, durably.
Source: KRaft opens its log as after an unclean shutdown every time (KafkaRaftLog, LogLoader).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from node.core.epoch_cache import EpochCache
from node.core.messages import Batch
from node.log.batch import CorruptBatchError
from node.log.disk import Disk
from node.log.epoch_checkpoint import read_epoch_checkpoint, write_epoch_checkpoint
from node.log.layout import SEGMENT_SUFFIX, segment_base
from node.log.segment import Segment
from node.log.segments import create_segment, drop_segments


class RecoveryError(Exception):
    """Raised when a directory cannot be the log of a healthy node; the node must not start."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What recovery removed: the tail of one segment, and the segments after it."""

    segment: str
    position: int
    offset: int
    bytes_cut: int
    reason: str
    dropped_segments: tuple[str, ...] = ()

    def __str__(self) -> str:
        dropped = f", dropped {', '.join(self.dropped_segments)}" if self.dropped_segments else ""
        return (
            f"cut {self.segment} at byte {self.position} (offset {self.offset}), "
            f"{self.bytes_cut} bytes lost{dropped}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log as it was found: open segments (at least one), its epochs, and what had to go."""

    segments: list[Segment]
    epochs: EpochCache
    cut: Cut | None


def recover(disk: Disk, directory: Path) -> Recovered:
    """Open all segments of a directory, mend the last one, and make what is left durable."""
    names = _segment_names(disk, directory)
    if not names:
        segment = create_segment(disk, directory, 0)
        return Recovered([segment], _checkpointed(disk, directory, EpochCache()), None)
    if names[0][0] > 0:
        raise RecoveryError(
            f"the log in {directory} starts at offset {names[0][0]} and there is no snapshot "
            "for what came before: restore the missing segments, or format this node anew"
        )
    segments = [
        Segment(directory / name, base, disk.open(directory / name), base) for base, name in names
    ]
    try:
        cut, keep, epochs = _scan(disk, directory, segments)
        for segment in segments[:keep]:  # a killed process leaves bytes in the page cache only
            segment.file.fsync()
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise
    for segment in segments[keep:]:
        segment.file.close()
    return Recovered(segments[:keep], _checkpointed(disk, directory, epochs), cut)


def _segment_names(disk: Disk, directory: Path) -> list[tuple[int, str]]:
    names = []
    for name in disk.listdir(directory):
        if name.endswith(SEGMENT_SUFFIX):
            base = segment_base(name)
            if base is None:
                raise RecoveryError(f"{directory / name} is no segment's name: remove it")
            names.append((base, name))
    return sorted(names)


def _scan(
    disk: Disk, directory: Path, segments: list[Segment]
) -> tuple[Cut | None, int, EpochCache]:
    """Walk all batches; returns the cut, how many segments stay, and the epochs."""
    epochs = EpochCache()
    end = 0
    for index, segment in enumerate(segments):
        if segment.base_offset != end:
            reason = f"{segment.path.name} follows although the log ends at {end}"
            return (
                _cut(disk, directory, segments[index - 1], segments[index:], reason),
                index,
                epochs,
            )
        try:
            for batch in _checked(segment, epochs):
                segment.note(batch)
                epochs.assign(batch.epoch, batch.base_offset)
        except CorruptBatchError as error:
            cut = _cut(disk, directory, segment, segments[index + 1 :], error.reason)
            return cut, index + 1, epochs
        end = segment.end_offset
    return None, len(segments), epochs


def _checked(segment: Segment, epochs: EpochCache) -> Iterator[Batch]:
    """The batches of a segment; raises CorruptBatchError also when one is out of order."""
    for batch in segment.scan():
        if batch.base_offset != segment.end_offset:
            raise CorruptBatchError(
                f"batch begins at {batch.base_offset}, want {segment.end_offset}", segment.size
            )
        if batch.epoch < epochs.latest_epoch:
            raise CorruptBatchError(
                f"epoch {batch.epoch} after {epochs.latest_epoch}", segment.size
            )
        yield batch


def _cut(disk: Disk, directory: Path, segment: Segment, later: list[Segment], reason: str) -> Cut:
    lost = segment.file.size() - segment.size + sum(s.file.size() for s in later)
    drop_segments(disk, directory, later)
    if segment.file.size() > segment.size:
        segment.truncate(segment.size, segment.end_offset)
    return Cut(
        segment=segment.path.name,
        position=segment.size,
        offset=segment.end_offset,
        bytes_cut=lost,
        reason=reason,
        dropped_segments=tuple(s.path.name for s in later),
    )


def _checkpointed(disk: Disk, directory: Path, epochs: EpochCache) -> EpochCache:
    """Make the checkpoint file agree with the log."""
    try:
        same = read_epoch_checkpoint(disk, directory) == epochs.entries
    except ValueError:  # it is derived data: rewritten, whatever was in it
        same = False
    if not same:
        write_epoch_checkpoint(disk, directory, epochs.entries)
    return epochs
