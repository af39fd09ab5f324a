"""The replicated log on disk: ``__cluster_metadata-0/%020d.log`` segments of record batches.

Offsets: ``start_offset`` is the first record, ``end_offset`` and ``flushed_offset`` are exclusive.
The log is opened as unclean every time: all segments are scanned, and cut at the first batch that
is torn, damaged or out of order (KRaft recovery; KAFKA-14104). Any OSError or LogError afterwards
means that the node must stop: what is in memory may no longer be what is on the disk.

Source: Kafka's UnifiedLog and KafkaRaftLog; KIP-595.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.core.epoch_cache import EpochCache
from node.core.messages import Batch
from node.log.batch import iter_batches, parse_batch
from node.log.disk import Disk, File
from node.log.epoch_checkpoint import write_epoch_checkpoint
from node.log.layout import partition_dir
from node.log.recovery import Cut, recover
from node.log.segment import Segment
from node.log.segments import create_segment, drop_segments
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
            recovered = recover(disk, self._dir)
        except BaseException:
            self._lock.release()
            raise
        self.cut: Cut | None = recovered.cut
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
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._segments[-1].end_offset

    @property
    def flushed_offset(self) -> int:
        """All records below are on disk."""
        return self._flushed

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 when there is none."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of every epoch in the log, ascending."""
        return self._epochs.entries

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
        cache is pruned. Raises LogError below the log start.
        """
        if offset < self.start_offset:
            raise LogError(f"cannot truncate to {offset}: the log starts at {self.start_offset}")
        if offset < self.end_offset:
            self._cut_segments(offset)
            self._cache.truncate_to(self.end_offset)
            self._flushed = min(self._flushed, self.end_offset)
            for flush in self._flushes:
                flush.upto = min(flush.upto, self.end_offset)
        before = self._epochs.entries
        self._epochs.truncate_from_end(min(offset, self.end_offset))
        if self._epochs.entries != before:
            write_epoch_checkpoint(self._disk, self._dir, self._epochs.entries)
        return self.end_offset

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
        """
        if offset == self.end_offset:
            return b""
        if offset < self.end_offset and self._cache.covers(offset):
            return b"".join([b.data for b in self._cache.read(offset, max_bytes)])
        segment = self._segment_of(offset)
        position, _ = segment.position_of(offset)
        return segment.read(position, max_bytes)

    def batches(self, from_offset: int, until: int | None = None) -> Iterator[Batch]:
        """Batches from the one holding ``from_offset``, each checked, up to ``until`` or the end.

        ``until`` is exclusive; the batch that holds it is not yielded. Raises
        OffsetOutOfRangeError, and CorruptBatchError for what rotted on disk since it was opened.
        """
        end = self.end_offset if until is None else until
        offset = from_offset
        while offset < min(end, self.end_offset):
            if self._cache.covers(offset):
                chunk = iter(self._cache.read(offset, _ITERATION_BYTES))
            else:
                chunk = iter_batches(self.read(offset, _ITERATION_BYTES))
            for batch in chunk:
                if batch.last_offset >= end:
                    return
                yield batch
                offset = batch.last_offset + 1

    def close(self) -> None:
        """Flush, close all files and give the lock back."""
        try:
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

    def _roll(self) -> None:
        self._segments.append(create_segment(self._disk, self._dir, self.end_offset))

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
        self._retired.extend(s.file for s in dropped)
        if not self._flushes:
            self._close_retired()

    def _close_retired(self) -> None:
        """Close files of dropped segments, once no flush can be using them any more."""
        for file in self._retired:
            file.close()
        self._retired.clear()
