"""Indexes partitions by broker, kept up to date and small for a million of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

_CHUNK_BITS = 10  # a chunk is one integer of 1024 bits: cheap to change, 0.2 byte per partition
_CHUNK = (1 << _CHUNK_BITS) - 1
_TOPIC_BITS = 128
_TOPIC = (1 << _TOPIC_BITS) - 1


class PartitionIndex:
    """Sets of partitions by holder, say by broker. Topics are told by their ids' 128 bits.

    A set is a bit map per topic and chunk of partitions. The key of a topic's first chunk is the
    id itself, so that the id's own integer serves all holders.
    """

    def __init__(self) -> None:
        self._bits: dict[int, dict[int, int]] = {}
        self._owned: set[int] = set()  # holders whose dict no copy shares

    def move(self, topic: int, partition: int, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        """Take a partition out of the sets of ``old`` holders and put it into those of ``new``."""
        chunk = partition >> _CHUNK_BITS
        key = topic | chunk << _TOPIC_BITS if chunk else topic
        bit = 1 << (partition & _CHUNK)
        for holder in old:
            chunks = self._bits[holder] if holder in self._owned else self._own(holder)
            left = chunks.get(key, 0) & ~bit
            if left:
                chunks[key] = left
            else:
                chunks.pop(key, None)
        for holder in new:
            chunks = self._bits[holder] if holder in self._owned else self._own(holder)
            chunks[key] = chunks.get(key, 0) | bit

    def drop(self, topic: int, partitions: Iterable[int]) -> None:
        """Take a topic out of all sets, these being all its partitions. O(holders * chunks)."""
        chunks = {partition >> _CHUNK_BITS for partition in partitions}
        keys = [topic | chunk << _TOPIC_BITS if chunk else topic for chunk in chunks]
        for holder in list(self._bits):
            for key in keys:
                if key in self._bits[holder]:
                    owned = self._bits[holder] if holder in self._owned else self._own(holder)
                    del owned[key]

    def of(self, holder: int) -> Iterator[tuple[UUID, int]]:
        """(topic id, partition) of the holder's set, sorted; as it is when the first is taken."""
        chunks = self._bits.get(holder, {})
        for key, bits in sorted(chunks.items(), key=_order):
            topic = UUID(int=key & _TOPIC)
            for partition in _numbers(bits, key >> _TOPIC_BITS):
                yield topic, partition

    def of_topic(self, holder: int, topic: int, count: int) -> Iterator[int]:
        """Give the topic's partitions below ``count`` in the holder's set, sorted.

        Each thousand is as it is when the first of it is taken.
        """
        chunks = self._bits.get(holder, {})
        for chunk in range((count + _CHUNK) >> _CHUNK_BITS):
            bits = chunks.get(topic | chunk << _TOPIC_BITS)
            if bits:
                yield from _numbers(bits, chunk)

    def count(self, holder: int) -> int:
        """Count the partitions in the holder's set. O(topics)."""
        return sum(bits.bit_count() for bits in self._bits.get(holder, {}).values())

    def copy(self) -> PartitionIndex:
        """An independent copy. O(holders): the sets are shared until one side changes them."""
        other = PartitionIndex()
        other._bits = dict(self._bits)
        self._owned.clear()
        return other

    def _own(self, holder: int) -> dict[int, int]:
        chunks = self._bits[holder] = dict(self._bits.get(holder, ()))
        self._owned.add(holder)
        return chunks


def _order(item: tuple[int, int]) -> tuple[int, int]:
    return item[0] & _TOPIC, item[0] >> _TOPIC_BITS


def _numbers(bits: int, chunk: int) -> Iterator[int]:
    """Give the numbers of the partitions in a chunk's bits, sorted."""
    base = chunk << _CHUNK_BITS
    while bits:
        lowest = bits & -bits
        yield base + lowest.bit_length() - 1
        bits ^= lowest
