"""Opens a log directory after whatever happened to it.

Every batch of every segment is checked: length, CRC-32C, contiguous offsets, epochs that never
fall. At the first that fails the file is cut there and all later segments are dropped, durably.
Then the snapshots: where the first segment does not begin at 0 the log begins at the oldest
snapshot that is not older than the segment, and without one the node must not start (KAFKA-14240).
A latest snapshot whose end the log does not go through is one that was installed before a crash
kept the log from being emptied: that is done now. Kafka 4.1 compares epochs first, and so keeps a
log whose tail a leader wrote that nobody copied, where an earlier leader came back and committed
other records (figure 8 of the Raft paper).
Where the log begins is written nowhere else, as in Kafka, whose metadata log has no checkpoint of
its start. Source: KRaft opens its log as after an unclean shutdown every time (KafkaRaftLog,
LogLoader, UnifiedLog).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from node.core.epoch_cache import EpochCache
from node.core.messages import Batch
from node.core.types import OffsetAndEpoch
from node.log.batch import CorruptBatchError
from node.log.control.history import ControlHistory
from node.log.disk import Disk
from node.log.epoch_checkpoint import read_epoch_checkpoint, write_epoch_checkpoint
from node.log.layout import SEGMENT_SUFFIX, segment_base, snapshot_name
from node.log.segment import Segment
from node.log.segments import create_segment, drop_segments, restart_segments
from node.log.snapshots import SnapshotError, SnapshotStore


class RecoveryError(Exception):
    """Raised when a directory cannot be the log of a healthy node; the node must not start."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The part that recovery removed: the tail of one segment, and the segments after it."""

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
    snapshots: SnapshotStore
    history: ControlHistory
    start: OffsetAndEpoch  # where the log begins, and the epoch of the record before, 0 if unknown
    emptied: bool = False  # in favour of the snapshot at ``start``


def check_begin(first: int, latest: OffsetAndEpoch | None, directory: Path) -> None:
    """Refuse a log that begins at ``first`` without a snapshot of what came before (KAFKA-14240).

    Raises:
        RecoveryError: That is so.
    """
    if first > 0 and (latest is None or latest.offset < first):
        raise RecoveryError(
            f"the log in {directory} starts at offset {first} and there is no snapshot for what "
            f"came before (the latest: {latest and latest.offset}): restore the missing segments "
            "or the snapshot, or format this node anew"
        )


def recover(
    disk: Disk,
    directory: Path,
    check: Callable[[int, OffsetAndEpoch | None, Path], None] = check_begin,
) -> Recovered:
    """Open all segments of a directory, mend the last one, and make what is left durable."""
    # A killed process may have left names in the page cache only: of a segment, of quorum-state.
    disk.fsync_dir(directory)
    names = _segment_names(disk, directory)
    snapshots = SnapshotStore(disk, directory)
    latest = snapshots.latest
    first = names[0][0] if names else 0
    check(first, latest, directory)
    history = _history_of(snapshots, directory)
    if not names:  # new, or a crash came between dropping the segments and creating one
        names = [(0, create_segment(disk, directory, 0).path.name)]
    segments = [
        Segment(directory / name, base, disk.open(directory / name), base) for base, name in names
    ]
    try:
        cut, keep, epochs, controls = _scan(disk, directory, segments)
        for segment in segments[:keep]:  # a killed process leaves bytes in the page cache only
            segment.file.fsync()
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise
    for segment in segments[keep:]:
        segment.file.close()
    for batch in controls:
        if latest is None or batch.base_offset >= latest.offset:
            history.note(batch)
    found = Recovered(
        segments[:keep], epochs, cut, snapshots, history, _start(segments[:keep], snapshots)
    )
    return _checkpointed(disk, directory, _with_snapshots(disk, directory, found))


def _history_of(snapshots: SnapshotStore, directory: Path) -> ControlHistory:
    """Read the latest snapshot to its end, so that it is known to be whole; gives its history."""
    history = ControlHistory()
    latest = snapshots.latest
    if latest is None:
        return history
    try:
        with snapshots.open(latest) as reader:
            controls = [record for batch in reader.batches() for record in batch.controls]
    except SnapshotError as error:
        raise RecoveryError(
            f"{directory / snapshot_name(latest)} is damaged: {error.reason}. Restore the file, "
            "or format this node anew and let it fetch from the quorum"
        ) from error
    history.begin_with(latest.offset, controls)
    return history


def _start(segments: list[Segment], snapshots: SnapshotStore) -> OffsetAndEpoch:
    """Find where the log begins: at 0, or at the oldest snapshot that the segments reach."""
    first = segments[0].base_offset
    if first > 0:
        for info in snapshots.infos:
            if first <= info.id.offset <= segments[-1].end_offset:
                return info.id
    return OffsetAndEpoch(first, 0)


def _with_snapshots(disk: Disk, directory: Path, found: Recovered) -> Recovered:
    """Empty the log when the latest snapshot is not of it; remove what is not needed any more."""
    epochs = epochs_from(found.epochs, found.start)
    end = found.segments[-1].end_offset
    latest = found.snapshots.latest
    if latest is not None and not goes_through(epochs, found.start, end, latest):
        for segment in found.segments:
            segment.file.close()
        segments = [restart_segments(disk, directory, found.segments, latest.offset)]
        epochs = epochs_from(EpochCache(), latest)
        found = replace(found, segments=segments, start=latest, emptied=True)
    found.snapshots.clean_up(found.start.offset)
    return replace(found, epochs=epochs)


def goes_through(
    epochs: EpochCache, start: OffsetAndEpoch, end: int, snapshot: OffsetAndEpoch
) -> bool:
    """Tell whether a log has the record before the end of ``snapshot``, and so all it covers.

    The log begins at ``start``, which is a snapshot too, and ends before ``end``.
    """
    if snapshot.offset <= start.offset:
        return snapshot == start
    return snapshot.offset <= end and epochs.epoch_before(snapshot.offset) == snapshot.epoch


def epochs_from(epochs: EpochCache, start: OffsetAndEpoch) -> EpochCache:
    """The epochs of a log that begins at ``start``: the one in force there is moved up to it.

    An empty log goes on from the epoch of its snapshot.
    """
    below = [(epoch, start.offset) for epoch, at in epochs.entries if at <= start.offset]
    above = [(epoch, at) for epoch, at in epochs.entries if at > start.offset]
    if not below and not above and start.epoch:
        below = [(start.epoch, start.offset)]
    return EpochCache((*below[-1:], *above))


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
) -> tuple[Cut | None, int, EpochCache, list[Batch]]:
    """Walk all batches; returns the cut, how many segments stay, epochs and control batches."""
    epochs = EpochCache()
    controls: list[Batch] = []
    end = segments[0].base_offset
    for index, segment in enumerate(segments):
        if segment.base_offset != end:
            reason = f"{segment.path.name} follows although the log ends at {end}"
            cut = _cut(disk, directory, segments[index - 1], segments[index:], reason)
            return cut, index, epochs, controls
        try:
            for batch in _checked(segment, epochs):
                segment.note(batch)
                epochs.assign(batch.epoch, batch.base_offset)
                if batch.controls:
                    controls.append(batch)
        except CorruptBatchError as error:
            cut = _cut(disk, directory, segment, segments[index + 1 :], error.reason)
            return cut, index + 1, epochs, controls
        end = segment.end_offset
    return None, len(segments), epochs, controls


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


def _checkpointed(disk: Disk, directory: Path, found: Recovered) -> Recovered:
    """Make the checkpoint file agree with the log."""
    try:
        same = read_epoch_checkpoint(disk, directory) == found.epochs.entries
    except ValueError:  # it is derived data: rewritten, whatever was in it
        same = False
    if not same:
        write_epoch_checkpoint(disk, directory, found.epochs.entries)
    return found
