"""Inputs and outputs of a ``krucible.Replica``, packed into bytes: a call of Java costs more.

Numbers and meanings are those of ``java/seam/krucible/Kinds.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final

_HEAD: Final = Struct(">biiqhi")
_LENGTH: Final = Struct(">i")
KEY_BITS: Final = 8


class Kind(IntEnum):
    """The kinds of inputs and outputs."""

    REQUEST = 1
    ANSWER = 2
    UNANSWERED = 3
    APPEND = 4
    SNAPSHOT = 5
    SHUTDOWN = 6
    RESIGN = 7
    WAIT = 20
    EVENT = 21
    LOG = 22
    SEND = 23
    REPLY = 24
    APPENDED = 25
    REFUSED = 26
    COMMITTED = 27
    LOADED = 28
    LEADER = 29
    FATAL = 30
    STOPPED = 31
    REJECTED = 32
    IMAGE = 33
    ENDLESS = 34
    CREATE = 40  # this and all behind it are changes of the disk
    WRITE = 41
    TRUNCATE = 42
    FSYNC = 43
    RENAME = 44
    UNLINK = 45
    FSYNC_NAMES = 46


# kind, a, b, c, d and bytes of one of them; which field means what depends on the kind
Item = tuple[int, int, int, int, int, bytes]


def pack(kind: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0, data: bytes = b"") -> bytes:
    """One input as bytes."""
    return _HEAD.pack(kind, a, b, c, d, len(data)) + data


def unpack(data: bytes) -> list[Item]:
    """All outputs of a turn, in their order."""
    items, position, end, read = list[Item](), _HEAD.size, len(data), _HEAD.unpack_from
    while position <= end:
        kind, a, b, c, d, size = read(data, position - _HEAD.size)
        items.append((kind, a, b, c, d, data[position : position + size]))
        position += size + _HEAD.size
    return items


def pack_values(values: Iterable[bytes]) -> bytes:
    """Values of records, each with its length."""
    return b"".join(_LENGTH.pack(len(value)) + value for value in values)


def unpack_values(data: bytes) -> list[bytes]:
    """The values again."""
    values, position = [], 0
    while position < len(data):
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        values.append(data[position : position + size])
        position += size
    return values


def unpack_batch(data: bytes) -> tuple[int, list[bytes]]:
    """The size of a committed batch in bytes, and the values of its records."""
    (size,) = _LENGTH.unpack_from(data)
    return size, unpack_values(data[_LENGTH.size :])
