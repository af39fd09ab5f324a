"""The shape of a message, walked before kio reads it.

kio's native reader trusts array lengths: it reserves 16 bytes for each announced element, and a
length of 2^32 in a frame of 40 bytes makes the allocator abort the whole process, which no
``except`` can stop. It also lets null pass where the schema forbids it, ignores the declared
sizes of tagged fields and refuses tagged fields that it does not know, which the protocol wants
skipped. So each body is first walked by a few closures made from the very dataclasses that kio
reads into. After the walk every length is known to fit, the number of elements (and with it the
memory that decoding takes) is bounded, the message ends where the frame ends, and unknown tagged
fields are cut out.

Source: Kafka's protocol guide ("Protocol Primitive Types"), KIP-482 (tagged fields, flexible
versions), KIP-893 (nullable structs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from struct import Struct
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from node.wire.errors import RemoteProtocolError

# Array elements and tagged fields in one message. A request may hold as many as Kafka's controller
# takes records in one batch; an answer describes a whole cluster.
REQUEST_ELEMENTS_MAX: Final = 10_000
RESPONSE_ELEMENTS_MAX: Final = 1_000_000
_VARINT_SHIFT_MAX: Final = 28  # five groups of seven bits
_INT32_MAX: Final = 2**31 - 1
_MORE: Final = 0x80
_SEVEN_BITS: Final = 0x7F
_NULL_STRUCT: Final = 0xFF  # -1 as a byte
_STRUCT: Final = 0x01

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

_SIZES: Final[Mapping[str, int]] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class Scan:
    """Counts the elements of one message, and collects its repairs, during a walk."""

    __slots__ = ("_elements_max", "edits", "elements")

    def __init__(self, elements_max: int) -> None:
        self.elements = 0
        self._elements_max = elements_max
        self.edits: list[tuple[int, int, bytes]] = []  # (start, end, replacement), ascending

    def count(self, elements: int) -> None:
        """Note that many more elements; raises RemoteProtocolError when they are too many."""
        self.elements += elements
        if self.elements > self._elements_max:
            raise RemoteProtocolError(f"more than {self._elements_max} elements in one message")


Walk = Callable[[bytes, int, Scan], int]


def checked(
    entity: type, data: bytes, offset: int, elements_max: int, *, surplus: bool = False
) -> tuple[bytes, int]:
    """The bytes and the offset from which kio can safely read ``entity``.

    They are the given ones unless unknown tagged fields, or bytes behind the message where
    ``surplus`` allows them, had to be cut out. O(bytes).

    Raises:
        RemoteProtocolError: The bytes from ``offset`` to the end are not one such message.
    """
    scan = Scan(elements_max)
    try:
        end = walker(entity)(data, offset, scan)
    except IndexError:
        end = len(data) + 1
    if surplus and end < len(data):
        data = data[:end]
    if end != len(data):
        what = "ends too early" if end > len(data) else f"has {len(data) - end} trailing bytes"
        raise RemoteProtocolError(f"{entity.__name__} {what}")
    return (_edited(data, scan.edits), offset) if scan.edits else (data, offset)


@cache
def walker(entity: type) -> Walk:
    """A function that returns where an ``entity`` at an offset ends; it may run over the end."""
    walk, _ = _compile(entity)
    return walk


def skip_tags(data: bytes, offset: int, scan: Scan) -> int:
    """Find the end of a section of tagged fields, all of them unknown and to be ignored."""
    count, offset = read_varint(data, offset)
    scan.count(count)
    for _ in range(count):
        _, offset = read_varint(data, offset)
        size, offset = read_varint(data, offset)
        offset += size
    return offset


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """An unsigned varint of at most 31 bits, and the offset after it."""
    byte = data[offset]
    offset += 1
    if byte < _MORE:
        return byte, offset
    value = byte & _SEVEN_BITS
    shift = 7
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & _SEVEN_BITS) << shift
        if byte < _MORE:
            break
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise RemoteProtocolError("a varint is longer than 5 bytes")
    if value > _INT32_MAX:
        raise RemoteProtocolError(f"a length or tag of {value} is more than 31 bits")
    return value, offset


def varint(value: int) -> bytes:
    """The unsigned varint of a value that is not negative."""
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


# --------------------------------------------------------------------------- compiling


def _compile(entity: type) -> tuple[Walk, int]:
    """The walk of an entity and its smallest size in bytes."""
    flexible = bool(getattr(entity, "__flexible__", False))
    steps: list[Walk | int] = []
    tagged: dict[int, Walk] = {}
    smallest = 0
    for field in fields(entity):
        step, size = _compile_field(entity, field, flexible=flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = _skip(step) if isinstance(step, int) else step
            continue
        smallest += size
        if isinstance(step, int) and steps and isinstance(steps[-1], int):
            steps[-1] += step
        else:
            steps.append(step)
    walks = tuple(_skip(step) if isinstance(step, int) else step for step in steps)
    if flexible:
        walks = (*walks, _tags(tagged, entity.__name__))
        smallest += 1
    return _sequence(walks), smallest


def _compile_field(entity: type, field: Field[Any], *, flexible: bool) -> tuple[Walk | int, int]:
    """Compile the step over a field (bytes when that is fixed), and its smallest size."""
    name = f"{entity.__name__}.{field.name}"
    type_, nullable = _without_none(field.type)
    if get_origin(type_) is tuple:
        item, _ = _without_none(get_args(type_)[0])
        step, size = _compile_single(item, field, name, flexible=flexible, nullable=False)
        walk = _array(step, size, name, flexible=flexible, nullable=nullable)
        return walk, 1 if flexible else _INT32.size
    nullable = nullable or "tag" in field.metadata
    return _compile_single(type_, field, name, flexible=flexible, nullable=nullable)


def _compile_single(
    type_: Any, field: Field[Any], name: str, *, flexible: bool, nullable: bool
) -> tuple[Walk | int, int]:
    if is_dataclass(type_):
        assert isinstance(type_, type)  # noqa: S101 - kio's annotations name classes
        walk, size = _compile(type_)
        if nullable and "tag" not in field.metadata:
            return _nullable_struct(walk, name), 1
        return walk, size
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in _SIZES:
        return _SIZES[kafka_type], _SIZES[kafka_type]
    if flexible:
        return _compact_bytes(name, nullable=nullable), 1
    prefix = _INT16 if kafka_type == "string" else _INT32
    return _legacy_bytes(prefix, name, nullable=nullable), prefix.size


def _without_none(type_: Any) -> tuple[Any, bool]:
    if isinstance(type_, UnionType):
        inner = [arg for arg in get_args(type_) if arg is not NoneType]
        return inner[0], True
    return type_, False


# --------------------------------------------------------------------------- walks


def _skip(size: int) -> Walk:
    def walk(_data: bytes, offset: int, _scan: Scan) -> int:
        return offset + size

    return walk


def _sequence(walks: tuple[Walk, ...]) -> Walk:
    if len(walks) == 1:
        return walks[0]

    def walk(data: bytes, offset: int, scan: Scan) -> int:
        for step in walks:
            offset = step(data, offset, scan)
        return offset

    return walk


def _compact_bytes(name: str, *, nullable: bool) -> Walk:
    def walk(data: bytes, offset: int, _scan: Scan) -> int:
        size = data[offset]
        offset += 1
        if size >= _MORE:
            size, offset = read_varint(data, offset - 1)
        if size:
            return offset + size - 1
        if nullable:
            return offset
        raise RemoteProtocolError(f"{name} must not be null")

    return walk


def _legacy_bytes(prefix: Struct, name: str, *, nullable: bool) -> Walk:
    def walk(data: bytes, offset: int, _scan: Scan) -> int:
        size = _read_int(prefix, data, offset)
        if size >= 0:
            return offset + prefix.size + size
        if size == -1 and nullable:
            return offset + prefix.size
        raise RemoteProtocolError(f"{name} has the length {size}")

    return walk


def _array(item: Walk | int, smallest: int, name: str, *, flexible: bool, nullable: bool) -> Walk:
    smallest = max(smallest, 1)

    def walk(data: bytes, offset: int, scan: Scan) -> int:
        if flexible:
            count, offset = read_varint(data, offset)
            count -= 1
        else:
            count = _read_int(_INT32, data, offset)
            offset += _INT32.size
        if count < 0:
            if count == -1 and nullable:
                return offset
            raise RemoteProtocolError(f"{name} has {'no' if count == -1 else count} elements")
        if count * smallest > len(data) - offset:
            raise RemoteProtocolError(
                f"{name} announces {count} elements in {max(len(data) - offset, 0)} bytes"
            )
        scan.count(count)
        if isinstance(item, int):
            return offset + count * item
        for _ in range(count):
            offset = item(data, offset, scan)
        return offset

    return walk


def _nullable_struct(walk_struct: Walk, name: str) -> Walk:
    def walk(data: bytes, offset: int, scan: Scan) -> int:
        marker = data[offset]
        if marker == _NULL_STRUCT:
            return offset + 1
        if marker == _STRUCT:
            return walk_struct(data, offset + 1, scan)
        raise RemoteProtocolError(f"{name} has the null marker {marker}")

    return walk


def _tags(known: Mapping[int, Walk], name: str) -> Walk:
    def walk(data: bytes, offset: int, scan: Scan) -> int:
        if data[offset] == 0:
            return offset + 1
        return _walk_tags(known, name, data, offset, scan)

    return walk


def _walk_tags(known: Mapping[int, Walk], name: str, data: bytes, offset: int, scan: Scan) -> int:
    start = offset
    count, offset = read_varint(data, offset)
    scan.count(count)
    after_count = offset
    position = len(scan.edits)
    unknown = 0
    for _ in range(count):
        tag_start = offset
        tag, offset = read_varint(data, offset)
        size, offset = read_varint(data, offset)
        end = offset + size
        if tag not in known:
            unknown += 1
            scan.edits.append((tag_start, end, b""))
        elif known[tag](data, offset, scan) != end:
            raise RemoteProtocolError(f"{name}: tagged field {tag} does not fill its {size} bytes")
        offset = end
    if unknown:
        scan.edits.insert(position, (start, after_count, varint(count - unknown)))
    return offset


# --------------------------------------------------------------------------- bytes


def _read_int(prefix: Struct, data: bytes, offset: int) -> int:
    if offset + prefix.size > len(data):
        raise IndexError
    value: int = prefix.unpack_from(data, offset)[0]
    return value


def _edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    parts = []
    position = 0
    for start, end, replacement in edits:
        parts += [data[position:start], replacement]
        position = end
    return b"".join([*parts, data[position:]])
