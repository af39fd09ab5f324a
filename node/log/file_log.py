"""The replicated log on disk: ``__cluster_metadata-0/%020d.log`` segments of record batches.

Offsets: ``start_offset`` is the first record, ``end_offset`` and ``flushed_offset`` are exclusive.
The log is opened as unclean every time: all segments are scanned, and cut at the first batch that
is torn, damaged or out of order (KRaft recovery; KAFKA-14104). Any OSError or LogError afterwards
means that the node must stop: what is in memory may no longer be what is on the disk.

Source: Kafka's UnifiedLog and KafkaRaftLog; KIP-595, KIP-630 (snapshots), KIP-853 (voters).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.core.epoch_cache import EpochCache
from node.core.messages import Batch
from node.core.types import OffsetAndEpoch, VoterSet
from node.log.batch import iter_batches, parse_batch, timestamp_ms, verify_batches
from node.log.cleaning import (
    Cleaning,
    Retention,
    SegmentSize,
    SnapshotAge,
    plan_cleaning,
    removable_segments,
)
from node.log.control.history import ControlHistory
from node.log.disk import Disk, File
from node.log.epoch_checkpoint import write_epoch_checkpoint
from node.log.layout import partition_dir
from node.log.recovery import Cut, check_begin, epochs_from, goes_through, recover
from node.log.segment import Segment
from node.log.segments import (
    create_segment,
    drop_first_segments,
    drop_segments,
    restart_segments,
)
from node.log.snapshots import SnapshotStore, SnapshotWriter
from node.log.tail_cache import TailCache

DEFAULT_SEGMENT_BYTES = 1 << 30
DEFAULT_CACHE_BYTES = 4 << 20
_ITERATION_BYTES = 1 << 20
LOCK_FILE = ".lock"


class LogError(Exception):
    """Raised when the log is used against its contract; the node must stop."""


class OffsetOutOfRangeError(LogError):
    """Raised when an offset is read that the log does not have."""


@dataclass(slots=True)
class Flush:
    """A flush under way; ``run`` may be called from another thread, once."""

    upto: int
    files: tuple[File, ...]

    def run(self) -> None:
        """Make the bytes durable. Blocks for as long as the disk takes."""
        for file in self.files:
            file.fsync()


class FileLog:
    """The log of one node; locks its directory until closed. Not thread-safe, but see Flush."""

    check_begin = staticmethod(check_begin)

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        """Open and recover the log in the log directory ``directory``.

        Raises:
            DirectoryLockedError: Another process has the directory.
            RecoveryError: The directory cannot be the log of a healthy node; see the message.
        """
        if segment_bytes <= 0:
            raise ValueError(f"segment_bytes={segment_bytes}, want more than 0")
        self._disk = disk
        self._dir = partition_dir(directory)
        self._segment_bytes = segment_bytes
        disk.make_dirs(self._dir)
        self._lock = disk.lock(directory / LOCK_FILE)
        try:
            recovered = recover(disk, self._dir, self.check_begin)
        except BaseException:
            self._lock.release()
            raise
        self.cut: Cut | None = recovered.cut
        self.emptied: bool = recovered.emptied  # in favour of a snapshot
        self.snapshots: SnapshotStore = recovered.snapshots
        self._start = recovered.start
        self._history: ControlHistory = recovered.history
        self._segments: list[Segment] = recovered.segments
        self._epochs: EpochCache = recovered.epochs
        self._cache = TailCache(cache_bytes)
        self._dirty: list[Segment] = []
        self._flushes: list[Flush] = []
        self._retired: list[File] = []
        self._flushed = self.end_offset

    # ------------------------------------------------------------------ where it stands

    @property
    def start_offset(self) -> int:
        """Offset of the first record the log holds or will hold."""
        return self._start.offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._segments[-1].end_offset

    @property
    def size(self) -> int:
        """Bytes of all batches that the log's files hold."""
        return sum(segment.size for segment in self._segments)

    @property
    def flushed_offset(self) -> int:
        """All records below are on disk."""
        return self._flushed

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot before an empty log; 0 without either."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of every epoch in the log, ascending.

        The first begins no earlier than the log; an empty log after a snapshot has its epoch.
        """
        return self._epochs.entries

    def voter_history(self) -> tuple[tuple[int, VoterSet], ...]:
        """The voter sets of the latest snapshot and of the log after it, with their offsets.

        A snapshot's is filed at the last offset it covers: -1 for the bootstrap snapshot.
        """
        return self._history.voters

    def kraft_version_history(self) -> tuple[tuple[int, int], ...]:
        """The levels of kraft.version, filed like the voters; never set means 0."""
        return self._history.kraft_versions

    # ------------------------------------------------------------------ write

    def append_as_leader(self, batch: Batch | bytes) -> Batch:
        """Append one batch of our own, not flushed yet; raises LogError, CorruptBatchError."""
        parsed = batch if isinstance(batch, Batch) else parse_batch(batch)
        self.append_batches((parsed,))
        return parsed

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append batches as they are, in offset order from the log end, not flushed yet.

        Raises:
            LogError: A batch does not begin at the log end, or its epoch is lower than the last.
        """
        self._check_contiguous(batches)
        run: list[Batch] = []
        run_bytes = 0
        for batch in batches:
            active = self._segments[-1]
            if active.size + run_bytes + len(batch.data) > self._segment_bytes and (
                active.size or run
            ):
                self._write(run)
                run, run_bytes = [], 0
                self._roll()
            run.append(batch)
            run_bytes += len(batch.data)
        self._write(run)

    def truncate_to(self, offset: int) -> int:
        """Drop every record at or above ``offset``, durably; returns the new log end.

        An offset inside a batch drops that whole batch. At or beyond the log end only the epoch
        cache is pruned. Raises LogError below the log start or the latest snapshot, which holds
        only what was committed.
        """
        latest = self.snapshots.latest
        if offset < max(self.start_offset, latest.offset if latest else 0):
            raise LogError(
                f"cannot truncate to {offset}: the log starts at {self.start_offset} and its "
                f"latest snapshot is {latest}"
            )
        if offset < self.end_offset:
            self._cut_segments(offset)
            self._cache.truncate_to(self.end_offset)
            self._flushed = min(self._flushed, self.end_offset)
            for flush in self._flushes:
                flush.upto = min(flush.upto, self.end_offset)
        self._history.truncate_from_end(self.end_offset)
        epochs = EpochCache(self._epochs.entries)
        epochs.truncate_from_end(min(offset, self.end_offset))
        self._replace_epochs(epochs_from(epochs, self._start))
        return self.end_offset

    # ------------------------------------------------------------------ snapshots

    def create_snapshot(
        self, snapshot: OffsetAndEpoch, *, high_watermark: int
    ) -> SnapshotWriter | None:
        """Begin a snapshot of the state at ``snapshot``, with the voters in force there.

        None when it would not be newer than the latest one, or ends below the log start.

        Raises:
            LogError: Its end offset is above the high watermark or inside of a batch
                (KAFKA-14619), or the record before it has another epoch.
        """
        latest = self.snapshots.latest
        if snapshot.offset <= max(self.start_offset, latest.offset if latest else 0):
            return None
        if snapshot.offset > min(high_watermark, self.end_offset):
            raise LogError(
                f"snapshot {snapshot} is beyond the high watermark {high_watermark} or the log end"
            )
        last = next(self.batches(snapshot.offset - 1))
        if last.last_offset != snapshot.offset - 1:
            raise LogError(
                f"snapshot {snapshot} ends inside the batch {last.base_offset}..{last.last_offset}"
            )
        if last.epoch != snapshot.epoch:
            raise LogError(f"snapshot {snapshot}: the record before it has epoch {last.epoch}")
        kraft_version, voters = self._quorum_at(snapshot.offset - 1)
        return self.snapshots.create(
            snapshot,
            last_contained_log_timestamp_ms=timestamp_ms(last),
            kraft_version=kraft_version,
            voters=voters if kraft_version else None,
        )

    def _quorum_at(self, offset: int) -> tuple[int, VoterSet | None]:
        """The kraft.version and the voters (None: static) in force at ``offset``."""
        return self._history.at(offset)

    def truncate_fully_to(self, snapshot: OffsetAndEpoch) -> None:
        """Drop the whole log and begin it anew after a snapshot that was installed, durably.

        Older snapshots are deleted. A crash before this has the same effect at the next start.

        Raises:
            LogError: The snapshot is not there, or the log has all that it covers.
            SnapshotError: The snapshot is damaged.
        """
        if snapshot not in self.snapshots:
            raise LogError(f"snapshot {snapshot} is not there to begin the log with")
        if goes_through(self._epochs, self._start, self.end_offset, snapshot):
            raise LogError(
                f"the log goes through the end of snapshot {snapshot}: it is not to be dropped"
            )
        with self.snapshots.open(snapshot) as reader:
            # All that speak of the quorum are in the first batch; a whole look at a million
            # partitions would keep the node silent, and what is installed has been checked.
            controls = next(reader.batches()).controls
        dropped = self._segments
        self._segments = [restart_segments(self._disk, self._dir, dropped, snapshot.offset)]
        self._dirty = []
        self._retire(dropped)
        self._cache.truncate_to(0)
        self._start = snapshot
        self._flushed = snapshot.offset
        for flush in self._flushes:
            flush.upto = min(flush.upto, snapshot.offset)
        self._history.begin_with(snapshot.offset, controls)
        self._replace_epochs(epochs_from(EpochCache(), snapshot))
        self.snapshots.delete_before(snapshot)

    def advance_start(self, offset: int) -> tuple[OffsetAndEpoch, ...]:
        """Make the log begin at the snapshot that ends at ``offset``.

        Whole segments below are deleted, and older snapshots; returns these. Nothing changes when
        the log already begins there or later.

        Raises:
            LogError: There is no such snapshot, or it is beyond the log.
        """
        if offset <= self.start_offset:
            return ()
        found = [info.id for info in self.snapshots.infos if info.id.offset == offset]
        if not found or offset > self.end_offset:
            raise LogError(
                f"the log cannot begin at {offset}: no snapshot of the log "
                f"{self.start_offset}..{self.end_offset} ends there"
            )
        self._start = found[-1]
        gone = removable_segments([segment.base_offset for segment in self._segments], offset)
        dropped = self._segments[:gone]
        drop_first_segments(self._disk, self._dir, dropped)
        del self._segments[:gone]
        self._dirty = [segment for segment in self._dirty if segment not in dropped]
        self._retire(dropped)
        self._history.truncate_from_start(offset)
        self._replace_epochs(epochs_from(self._epochs, self._start))
        return self.snapshots.delete_before(self._start)

    def clean(self, *, now_ms: int, retention: Retention) -> Cleaning | None:
        """Delete from the beginning what the limits allow; returns what was done, None if nothing.

        To be called about once a minute. ``now_ms`` is in ms since 1970.
        """
        cleaning = plan_cleaning(
            [
                SnapshotAge(info.id, info.size, self.snapshots.timestamp_ms(info.id))
                for info in self.snapshots.infos
            ],
            [SegmentSize(segment.base_offset, segment.size) for segment in self._segments],
            self.start_offset,
            now_ms=now_ms,
            retention=retention,
        )
        if cleaning is not None:
            self.advance_start(cleaning.start.offset)
        return cleaning

    # ------------------------------------------------------------------ make durable

    def flush(self) -> int:
        """Fsync what was appended; returns ``flushed_offset``, which then is the log end."""
        flush = self.start_flush()
        flush.run()
        return self.finish_flush(flush)

    def start_flush(self) -> Flush:
        """Begin a flush up to the present log end, for ``Flush.run`` on another thread.

        Appending and truncating may go on meanwhile. Every flush ends with ``finish_flush``.
        """
        flush = Flush(self.end_offset, tuple(s.file for s in self._dirty))
        self._dirty = []
        self._flushes.append(flush)
        return flush

    def finish_flush(self, flush: Flush) -> int:
        """Account for a flush that has run; returns the new ``flushed_offset``.

        Flushes must be finished in the order they were started, or an earlier one still running
        may hold bytes below the later one's offset.
        """
        if not self._flushes or self._flushes[0] is not flush:
            raise LogError("flushes must be finished in the order they were started")
        self._flushes.pop(0)
        self._flushed = max(self._flushed, flush.upto)
        if not self._flushes:
            self._close_retired()
        return self._flushed

    # ------------------------------------------------------------------ read

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one holding ``offset``; at least one, empty at the log end.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start or above the log end.
            CorruptBatchError: What is on disk rotted since it was opened (KAFKA-14104).
        """
        if offset == self.end_offset:
            return b""
        if self.start_offset <= offset < self.end_offset and self._cache.covers(offset):
            return b"".join([b.data for b in self._cache.read(offset, max_bytes)])
        return self._read_file(offset, max_bytes)

    def batches(self, from_offset: int, until: int | None = None) -> Iterator[Batch]:
        """Batches from the one holding ``from_offset``, each checked, up to ``until`` or the end.

        ``until`` is exclusive; the batch that holds it is not yielded. Raises
        OffsetOutOfRangeError, and CorruptBatchError for what rotted on disk since it was opened.
        """
        end = self.end_offset if until is None else until
        offset = from_offset
        while offset < min(end, self.end_offset):
            if offset < self.start_offset:
                raise OffsetOutOfRangeError(f"offset {offset} is below {self.start_offset}")
            if self._cache.covers(offset):
                chunk = iter(self._cache.read(offset, _ITERATION_BYTES))
            else:
                chunk = iter_batches(self._read_file(offset, _ITERATION_BYTES))
            for batch in chunk:
                if batch.last_offset >= end:
                    return
                yield batch
                offset = batch.last_offset + 1

    def close(self) -> None:
        """Flush, close all files and give the lock back.

        After a flush that failed there is no other: the kernel may have dropped what it could not
        write, and would say that all is well.
        """
        try:
            if not self._flushes:
                self.flush()
        finally:
            self._flushes.clear()
            self._close_retired()
            for segment in self._segments:
                segment.file.close()
            self._lock.release()

    # ------------------------------------------------------------------ inside

    def _check_contiguous(self, batches: Sequence[Batch]) -> None:
        expected, epoch = self.end_offset, self.last_epoch
        for batch in batches:
            if batch.base_offset != expected:
                raise LogError(f"batch begins at {batch.base_offset}, the log ends at {expected}")
            if batch.epoch < epoch:
                raise LogError(
                    f"batch at {expected} has epoch {batch.epoch}, the one before it {epoch}"
                )
            expected, epoch = batch.last_offset + 1, batch.epoch

    def _write(self, batches: list[Batch]) -> None:
        if not batches:
            return
        for batch in batches:
            if batch.epoch and batch.epoch == self._epochs.latest_epoch:
                continue
            self._epochs.assign(batch.epoch, batch.base_offset)
            write_epoch_checkpoint(self._disk, self._dir, self._epochs.entries)
        active = self._segments[-1]
        active.append(batches)
        if not self._dirty or self._dirty[-1] is not active:
            self._dirty.append(active)
        for batch in batches:
            self._cache.append(batch)
            self._history.note(batch)

    def _roll(self) -> None:
        self._segments.append(create_segment(self._disk, self._dir, self.end_offset))

    def _replace_epochs(self, epochs: EpochCache) -> None:
        if epochs.entries != self._epochs.entries:
            write_epoch_checkpoint(self._disk, self._dir, epochs.entries)
        self._epochs = epochs

    def _read_file(self, offset: int, max_bytes: int) -> bytes:
        segment = self._segment_of(offset)
        position, base = segment.position_of(offset)
        data = segment.read(position, max_bytes)
        verify_batches(data, base)
        return data

    def _segment_of(self, offset: int) -> Segment:
        if not self.start_offset <= offset < self.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is outside of {self.start_offset}..{self.end_offset}"
            )
        index = bisect_right(self._segments, offset, key=lambda s: s.base_offset) - 1
        return self._segments[index]

    def _cut_segments(self, offset: int) -> None:
        keep = self._segments.index(self._segment_of(offset)) + 1
        dropped = self._segments[keep:]
        drop_segments(self._disk, self._dir, dropped)
        del self._segments[keep:]
        last = self._segments[-1]
        position, base = last.position_of(offset)
        last.truncate(position, base)
        self._dirty = [s for s in self._dirty if s not in dropped]
        self._retire(dropped)

    def _retire(self, dropped: Sequence[Segment]) -> None:
        self._retired.extend(segment.file for segment in dropped)
        if not self._flushes:
            self._close_retired()

    def _close_retired(self) -> None:
        """Close files of dropped segments, once no flush can be using them any more."""
        for file in self._retired:
            file.close()
        self._retired.clear()
