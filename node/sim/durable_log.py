"""The part of a node's log on a simulated disk that no loss of power can change, batch by batch.

It is what recovery would find if all that is not fsynced were lost: whole batches with the right
CRC, one behind the other, in segments whose names are durable. Only what has changed since the last
look is looked at again, so that all looks together are O(bytes of the log).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from node.log.layout import PARTITION, segment_base
from node.log.memory_disk import MemoryDisk

_HEAD: Final = Struct(">qiibIhi")  # base offset, length, epoch, magic, CRC, attributes, last delta
_UNCOUNTED: Final = 12  # bytes of a batch that its length does not count
_CHECKED_FROM: Final = 21  # the CRC is of all bytes from there on
_MAGIC: Final = 2


class Stored(NamedTuple):
    """A whole batch as its header tells of it."""

    base: int
    last: int
    epoch: int
    crc: int


class _Found(NamedTuple):
    """A batch of the durable log, and where it ends in its segment, in bytes."""

    segment: Path
    end: int
    batch: Stored


class DurableLog:
    """Looks at the segments on a disk, and keeps what it has found there for the next look."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        self._segments = {
            path: disk.durability(path)
            for path in disk.contents()
            if path.parent.name == PARTITION and segment_base(path.name) is not None
        }
        self._by_base: dict[int, Path] = {}  # the same segments by their base offsets, in order
        self._sort()
        self._found: list[_Found] = []
        self._loose: set[Path] = set()  # segments that may come back, or a part of them
        self._dropped = False  # since the last look
        self._told: tuple[Any, ...] | None = None

    def changed(self, segment: Path) -> bool:
        """Hear of a change of a segment or of its name; tell whether it matters to a restart."""
        before, now = self._segments.get(segment), self._disk.durability(segment)
        if now == before:
            return False
        if now is None:
            del self._segments[segment]
        else:
            self._segments[segment] = now
        if before is None or now is None:
            self._sort()
        if before is not None:
            if now is None or now[0] != before[0]:
                self._loose.add(segment)
                self._drop(segment, 0)
            else:
                self._drop(segment, now[1])
        if now is not None and now[2]:
            self._loose.add(segment)
        return True

    def _sort(self) -> None:
        bases = {segment_base(path.name) or 0: path for path in self._segments}
        self._by_base = {base: bases[base] for base in sorted(bases)}

    def _drop(self, segment: Path, size: int) -> None:
        """Forget what was found in a segment beyond a size, and what follows it.

        The first segment is removed without the others when the log is to begin later.
        """
        found = self._found
        if found and found[0].segment == segment and not size:
            self._found = [one for one in found if one.segment != segment]
            return
        base = segment_base(segment.name) or 0
        while found and found[-1].batch.last >= base:
            if found[-1].segment == segment and found[-1].end <= size:
                return
            found.pop()
            self._dropped = True

    def look(self) -> dict[str, Any] | None:
        """Tell what is durable, and from which offset on that is news; None: all as it was told.

        ``begin`` and ``upto`` (exclusive) are offsets, ``batches`` the durable ones at ``from`` or
        above, ``back`` those that were cut and may come back.
        """
        if not self._by_base:
            return None
        begin, first = next(iter(self._by_base.items()))
        if self._found and self._found[0].segment != first:
            self._found.clear()
            self._dropped = True
        low = self._found[-1].batch.last + 1 if self._found else begin
        new = list(self._advance(first, low))
        upto = new[-1].last + 1 if new else low
        back = self._back(begin)
        told = begin, upto, tuple(back)
        if told == self._told and not new and not self._dropped:
            return None
        self._told, self._dropped = told, False
        return {"begin": begin, "upto": upto, "from": low, "batches": new, "back": back}

    def _advance(self, first: Path, offset: int) -> Iterator[Stored]:
        """Find the batches from an offset on, behind all that was found already."""
        segment, position = first, 0
        if self._found:
            segment, position, _ = self._found[-1]
        disk = self._disk
        while disk.is_settled(segment):
            end = disk.fsynced_size(segment)
            found = None if position == end else _batch_at(disk, segment, position, end)
            if found is not None and found[0].base == offset:
                batch, size = found
                position, offset = position + size, batch.last + 1
                self._found.append(_Found(segment, position, batch))
                yield batch
                continue
            rolled = self._by_base.get(offset)
            if rolled is None or rolled == segment:
                return
            segment, position = rolled, 0

    def _back(self, begin: int) -> list[Stored]:
        """The batches that were cut and that a loss of power may bring back, in their order."""
        if not self._loose:
            return []
        undone = {path: self._disk.undone(path) for path in self._loose}
        self._loose = {path for path, contents in undone.items() if contents}
        stands = {one.batch for one in self._found}
        cut = {
            batch
            for contents in undone.values()
            for content in contents
            for batch in _batches(content)
            if batch.base >= begin and batch not in stands
        }
        return sorted(cut)


def _batch_at(disk: MemoryDisk, path: Path, position: int, end: int) -> tuple[Stored, int] | None:
    """The batch at a place in a file and its size in bytes, if it is whole before ``end``."""
    head = disk.peek(path, position, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    base, length, epoch, magic, crc, _, last_delta = _HEAD.unpack(head)
    size = length + _UNCOUNTED
    if magic != _MAGIC or size <= _HEAD.size or position + size > end or last_delta < 0:
        return None
    if crc32c(disk.peek(path, position + _CHECKED_FROM, size - _CHECKED_FROM)) != crc:
        return None
    return Stored(base, base + last_delta, epoch, crc), size


def _batches(content: bytes) -> Iterator[Stored]:
    """The whole batches at the beginning of a segment."""
    disk, path, position = MemoryDisk(), Path("segment"), 0
    disk.open(path, create=True).append(content)
    while (found := _batch_at(disk, path, position, len(content))) is not None:
        yield found[0]
        position += found[1]
