"""The newest batches of the log in memory, so that followers' fetches need not read the file."""

from __future__ import annotations

from bisect import bisect_right

from node.core.messages import Batch


class TailCache:
    """Contiguous batches up to the log end, bounded in bytes (one batch always stays)."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._batches: list[Batch] = []
        self._bases: list[int] = []
        self._bytes = 0

    def append(self, batch: Batch) -> None:
        """Add the batch that follows the last one. O(1) amortised."""
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self._bytes += len(batch.data)
        if self._bytes > self._max_bytes:
            self._shrink()

    def truncate_to(self, offset: int) -> None:
        """Drop the batches that begin at or above ``offset``."""
        while self._bases and self._bases[-1] >= offset:
            self._bases.pop()
            self._bytes -= len(self._batches.pop().data)

    def covers(self, offset: int) -> bool:
        """Tell whether the cache holds the batch with ``offset`` and all batches after it."""
        return bool(self._bases) and offset >= self._bases[0]

    def read(self, offset: int, max_bytes: int) -> list[Batch]:
        """The batch holding ``offset`` and what follows it, within ``max_bytes`` or just one."""
        first = bisect_right(self._bases, offset) - 1
        last = first + 1
        room = max_bytes - len(self._batches[first].data)
        while last < len(self._batches) and len(self._batches[last].data) <= room:
            room -= len(self._batches[last].data)
            last += 1
        return self._batches[first:last]

    def _shrink(self) -> None:
        """Drop the oldest batches down to half of the bound, so that shrinking is rare."""
        keep = 0
        while self._bytes > self._max_bytes // 2 and keep < len(self._batches) - 1:
            self._bytes -= len(self._batches[keep].data)
            keep += 1
        del self._batches[:keep], self._bases[:keep]
