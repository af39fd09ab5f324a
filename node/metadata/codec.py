"""The bytes of metadata records, made from the declarations in ``schemas``.

For each version of each record a plan is drawn up once: the fields that lie in the body in their
order, and the tagged ones by number. Bytes may come from anywhere: what is cut short, runs over or
claims more items than there are bytes raises ValueError. Source: KIP-482 for the flexible format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from node.metadata.schemas import MetadataRecord, Since, Tag, Wire

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]

_MAX_VARINT_BYTES = 5
_MORE = 0x80
_SEVEN_BITS = 0x7F
_BYTES = tuple(bytes((n,)) for n in range(128))
_ZERO_ID = bytes(16)
_INTERNED = 1 << 16  # how many replica sets, directory sets and ids are kept to be shared


# --------------------------------------------------------------------------- primitives


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value <= _SEVEN_BITS:
        return _BYTES[value]
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and where it ends; raises ValueError."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise ValueError("cut short within a varint")
        byte = data[position + index]
        value |= (byte & _SEVEN_BITS) << (7 * index)
        if byte < _MORE:
            return value, position + index + 1
    raise ValueError(f"varint too long: {data[position : position + 8].hex()}")


@lru_cache(_INTERNED)
def intern_id(raw: bytes) -> UUID | None:
    """An id from its 16 bytes; all zeros are None. Equal ids are one object."""
    return None if raw == _ZERO_ID else UUID(bytes=raw)


@lru_cache(_INTERNED)
def intern_ints(raw: bytes) -> tuple[int, ...]:
    """The int32s in some bytes; equal ones are one tuple: a cluster has few sets of replicas."""
    return struct.unpack(f">{len(raw) // 4}i", raw)


@lru_cache(_INTERNED)
def intern_ids(raw: bytes) -> tuple[UUID | None, ...]:
    """The ids in some bytes; equal ones are one tuple."""
    return tuple([intern_id(raw[at : at + 16]) for at in range(0, len(raw), 16)])


@lru_cache(_INTERNED)
def pack_ints(values: tuple[int, ...]) -> bytes:
    """A compact array of int32s."""
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def pack_id(value: UUID | None) -> bytes:
    """The 16 bytes of an id."""
    return _ZERO_ID if value is None else value.bytes


@lru_cache(_INTERNED)
def pack_ids(values: tuple[UUID | None, ...]) -> bytes:
    """A compact array of ids."""
    return uvarint(len(values) + 1) + b"".join([pack_id(value) for value in values])


def take(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    """``size`` bytes and where they end; raises ValueError when there are fewer."""
    end = position + size
    if end > len(data):
        raise ValueError(f"{size} bytes wanted at {position}, {len(data) - position} are left")
    return data[position:end], end


def read_block(data: bytes, position: int, unit: int = 1) -> tuple[bytes | None, int]:
    """A length plus one as varint, then as many units; None for null."""
    length, position = read_uvarint(data, position)
    return take(data, position, (length - 1) * unit) if length else (None, position)


def pack_string(value: str) -> bytes:
    """A compact string."""
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def _present(block: tuple[bytes | None, int]) -> tuple[bytes, int]:
    if block[0] is None:
        raise ValueError("null where a value is required")
    return block[0], block[1]


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    raw, position = _present(read_block(data, position))
    return raw.decode(), position


def _read_id(data: bytes, position: int) -> tuple[UUID | None, int]:
    raw, position = take(data, position, 16)
    return intern_id(raw), position


def _read_ints(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    raw, position = _present(read_block(data, position, 4))
    return intern_ints(raw), position


def _read_ids(data: bytes, position: int) -> tuple[tuple[UUID | None, ...], int]:
    raw, position = _present(read_block(data, position, 16))
    return intern_ids(raw), position


def _fixed(form: str) -> tuple[Reader, Writer]:
    packer = struct.Struct(">" + form)
    size = packer.size

    def read(data: bytes, position: int) -> tuple[Any, int]:
        return packer.unpack_from(data, position)[0], position + size

    return read, packer.pack


def _nullable(codec: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    read_value, write_value = codec

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if data[position : position + 1] == b"\0":
            return None, position + 1
        return read_value(data, position)

    def write(value: Any) -> bytes:
        return b"\0" if value is None else write_value(value)

    return read, write


def _array(codec: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    read_item, write_item = codec

    def read(data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_uvarint(data, position)
        if not length:
            raise ValueError("null where an array is required")
        items = []
        for _ in range(length - 1):  # each takes a byte or more, so this ends with the data
            item, position = read_item(data, position)
            items.append(item)
        return tuple(items), position

    def write(value: Sequence[Any]) -> bytes:
        return uvarint(len(value) + 1) + b"".join([write_item(item) for item in value])

    return read, write


_STRING = (_read_string, pack_string)
_INTS = (_read_ints, pack_ints)
_IDS = (_read_ids, pack_ids)
_CODECS: Mapping[Wire, tuple[Reader, Writer]] = {
    Wire.BOOL: _fixed("?"),
    Wire.INT8: _fixed("b"),
    Wire.INT16: _fixed("h"),
    Wire.UINT16: _fixed("H"),
    Wire.INT32: _fixed("i"),
    Wire.INT64: _fixed("q"),
    Wire.FLOAT64: _fixed("d"),
    Wire.UUID: (_read_id, pack_id),
    Wire.STRING: _STRING,
    Wire.NULLABLE_STRING: _nullable(_STRING),
    Wire.BYTES: (
        lambda data, position: _present(read_block(data, position)),
        lambda value: uvarint(len(value) + 1) + value,
    ),
    Wire.INT32S: _INTS,
    Wire.NULLABLE_INT32S: _nullable(_INTS),
    Wire.UUIDS: _IDS,
    Wire.NULLABLE_UUIDS: _nullable(_IDS),
    Wire.STRINGS: _array(_STRING),
}


# --------------------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of one version."""

    name: str
    read: Reader
    write: Writer
    default: Any = msgspec.NODEFAULT


@dataclass(slots=True)
class _Plan:
    """The layout of one version of a record on the wire."""

    cls: type[msgspec.Struct]
    body: list[_Field] = field(default_factory=list)
    tagged: dict[int, _Field] = field(default_factory=dict)
    absent: list[_Field] = field(default_factory=list)  # what only later versions have

    def read(self, data: bytes, position: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for part in self.body:
            values[part.name], position = part.read(data, position)
        count, position = read_uvarint(data, position)
        for _ in range(count):
            number, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            raw, position = take(data, position, size)
            known = self.tagged.get(number)
            if known is None:
                continue  # a newer node may add some; they change nothing for an older one
            values[known.name], end = known.read(raw, 0)
            if end != size:
                raise ValueError(f"tagged field {known.name} has {size - end} bytes too many")
        return values, position

    def read_struct(self, data: bytes, position: int) -> tuple[Any, int]:
        values, position = self.read(data, position)
        return self.cls(**values), position

    def write(self, record: Any) -> bytes:
        for part in self.absent:
            if getattr(record, part.name) != part.default:
                raise ValueError(f"{part.name} cannot be written in version {record.version}")
        out = [part.write(getattr(record, part.name)) for part in self.body]
        tags = []
        for number, part in self.tagged.items():
            value = getattr(record, part.name)
            if value != part.default:
                raw = part.write(value)
                tags += [uvarint(number), uvarint(len(raw)), raw]
        return b"".join([*out, uvarint(len(tags) // 3), *tags])


@cache
def _plan(cls: type[msgspec.Struct], version: int) -> _Plan:
    plan = _Plan(cls)
    hints = get_type_hints(cls, include_extras=True)
    tagged = {}
    for info in msgspec.structs.fields(cls):
        if info.name == "version":
            continue
        hint = hints[info.name]
        marks = {type(mark): mark for mark in hint.__metadata__}
        part = _Field(info.name, *_codec(marks[Wire], hint, version), info.default)
        if Since in marks and version < marks[Since].version:
            plan.absent.append(part)
        elif Tag in marks:
            tagged[marks[Tag].number] = part
        else:
            plan.body.append(part)
    plan.tagged = dict(sorted(tagged.items()))
    return plan


def _codec(wire: Wire, hint: Any, version: int) -> tuple[Reader, Writer]:
    if wire is not Wire.STRUCTS:
        return _CODECS[wire]
    array = get_args(hint)[0]
    assert get_origin(array) is tuple  # noqa: S101 - a declaration, not input
    plan = _plan(get_args(array)[0], version)
    return _array((plan.read_struct, plan.write))


# --------------------------------------------------------------------------- records


@cache
def field_names(cls: type[MetadataRecord], version: int) -> tuple[str, ...]:
    """The fields that a version has, in the order of their declaration."""
    absent = {part.name for part in _plan(cls, version).absent}
    return tuple([n for n in cls.__struct_fields__ if n != "version" and n not in absent])


def write_record(record: MetadataRecord) -> bytes:
    """The message of a record in its version, without the frame.

    Raises:
        ValueError: A value does not fit its type or its record's version.
        struct.error: A number does not fit its type.
    """
    return _plan(type(record), record.version).write(record)


def read_record(
    cls: type[MetadataRecord], version: int, data: bytes, position: int
) -> tuple[MetadataRecord, int]:
    """The message of a record that begins at ``position``, and where it ends.

    Raises:
        ValueError: The bytes are not such a message.
        struct.error: They are cut short.
    """
    values, position = _plan(cls, version).read(data, position)
    return cls(version=version, **values), position
