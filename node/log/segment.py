"""One segment file of the log: whole batches one after another, with a sparse index in memory.

The index maps an offset to a file position about every INDEX_INTERVAL_BYTES; a lookup walks the
batch headers from there. It is rebuilt by scanning when a segment is opened, which also is where
a torn or damaged tail is found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from node.core.messages import Batch
from node.log.batch import HEADER_BYTES, CorruptBatchError, batch_size, parse_batch
from node.log.disk import File

INDEX_INTERVAL_BYTES = 4096
_SCAN_BYTES = 1 << 20


@dataclass(slots=True)
class Segment:
    """An open segment. ``end_offset`` is exclusive; ``size`` counts valid bytes."""

    path: Path
    base_offset: int
    file: File
    end_offset: int
    size: int = 0
    _offsets: list[int] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)

    def append(self, batches: list[Batch]) -> None:
        """Write batches at the end in one go."""
        self.file.append(b"".join([batch.data for batch in batches]))
        for batch in batches:
            self.note(batch)

    def note(self, batch: Batch) -> None:
        """Take into account a batch that lies at the end of the file."""
        if not self._positions or self.size - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._offsets.append(batch.base_offset)
            self._positions.append(self.size)
        self.size += len(batch.data)
        self.end_offset = batch.last_offset + 1

    def scan(self) -> Iterator[Batch]:
        """All batches of the file from its beginning, each fully checked.

        Raises:
            CorruptBatchError: At the first one that is not valid; position is in the file.
        """
        end = self.file.size()
        position = chunk_start = 0
        chunk = b""
        while position < end:
            local = position - chunk_start
            try:
                if len(chunk) - local < HEADER_BYTES or len(chunk) - local < batch_size(
                    chunk, local
                ):
                    chunk = self._scan_chunk(position)
                    chunk_start, local = position, 0
                size = batch_size(chunk, local)
                batch = parse_batch(chunk[local : local + size], local)
            except CorruptBatchError as error:
                raise CorruptBatchError(error.reason, position) from error
            yield batch
            position += size

    def _scan_chunk(self, position: int) -> bytes:
        """A large piece of the file that holds at least the whole batch at ``position``."""
        chunk = self.file.read(position, _SCAN_BYTES)
        size = batch_size(chunk, 0)
        return chunk if size <= len(chunk) else self.file.read(position, size)

    def position_of(self, offset: int) -> tuple[int, int]:
        """Position and base offset of the batch holding ``offset``; (size, end) at the end."""
        if offset >= self.end_offset:
            return self.size, self.end_offset
        entry = bisect_right(self._offsets, offset) - 1
        position = self._positions[entry]
        while True:
            header = self.file.read(position, HEADER_BYTES)
            base, last_delta = header_offsets(header)
            if offset <= base + last_delta:
                return position, base
            position += batch_size(header, 0)

    def read(self, position: int, max_bytes: int) -> bytes:
        """Whole batches from a batch boundary: at most ``max_bytes``, but at least one batch."""
        wanted = min(max(max_bytes, HEADER_BYTES), self.size - position)
        data = self.file.read(position, wanted)
        first = batch_size(data, 0)
        if first >= len(data):
            return data if first == len(data) else self.file.read(position, first)
        end = first
        while len(data) - end >= HEADER_BYTES and end + (size := batch_size(data, end)) <= len(
            data
        ):
            end += size
        return data[:end]

    def truncate(self, position: int, end_offset: int) -> None:
        """Drop the batches from ``position`` on; durable when this returns."""
        self.file.truncate(position)
        self.file.fsync()
        keep = len(self._positions)
        while keep and self._positions[keep - 1] >= position:
            keep -= 1
        del self._positions[keep:], self._offsets[keep:]
        self.size = position
        self.end_offset = end_offset


def header_offsets(header: bytes) -> tuple[int, int]:
    """Base offset and last offset delta from the first bytes of a batch."""
    base = int.from_bytes(header[0:8], "big", signed=True)
    return base, int.from_bytes(header[23:27], "big", signed=True)
