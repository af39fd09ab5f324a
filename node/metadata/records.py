"""Metadata records as bytes of the log, and as JSON for people and checkers.

The value of a data record is a frame: frame version 1, API key and version, each an unsigned
varint, then the flexible message. Source: Kafka's MetadataRecordSerde; KIP-631.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import IO, Any, ClassVar, TypeVar
from uuid import UUID

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16

from node.metadata.schemas import ALL_RECORDS, ConfigRecord, MetadataRecord, NoOpRecord

_FRAME_VERSION = 1
_MAX_VARINT_BYTES = 5
_MORE = 0x80
_SEVEN_BITS = 0x7F

R = TypeVar("R", bound=MetadataRecord)


class RecordError(ValueError):
    """Raised when bytes or JSON are no metadata record that this node knows; it must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueRecord(MetadataRecord):
    """A record of a kind that Kafka has and this node's image does not hold: kept as bytes."""

    __api_key__: ClassVar[i16] = i16(-1)
    api_key: int
    version: int
    data: bytes

    @property
    def name(self) -> str:
        """Kafka's name of this kind of record."""
        return _OPAQUE[self.api_key]


_OPAQUE: Mapping[int, str] = {
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}


# --------------------------------------------------------------------------- bytes


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a data record of the log."""
    if type(record) is ConfigRecord:  # the hot path: kio's writer takes some nine times as long
        return _encode_config(record)
    if isinstance(record, OpaqueRecord):
        return _frame(record.api_key, record.version) + record.data
    head, write = _WRITERS[type(record)]
    buffer = io.BytesIO()
    write(buffer, record)
    return head + buffer.getvalue()


def decode_record(data: bytes) -> MetadataRecord:
    """Read the value of a data record; raises RecordError."""
    try:
        frame, position = _read_uvarint(data, 0)
        api_key, position = _read_uvarint(data, position)
        version, position = _read_uvarint(data, position)
    except IndexError:
        raise RecordError(f"metadata record frame is cut short: {data[:32].hex()}") from None
    if frame != _FRAME_VERSION:
        raise RecordError(f"metadata record frame version {frame}, want {_FRAME_VERSION}")
    reader = _READERS.get((api_key, version))
    if reader is None:
        if api_key in _OPAQUE:
            return OpaqueRecord(api_key=api_key, version=version, data=data[position:])
        raise RecordError(
            f"metadata record of key {api_key} version {version} is not known to this node"
        )
    record: MetadataRecord
    try:
        record, size = reader(data, position)
    except Exception as error:  # kio raises many kinds for malformed bytes
        raise RecordError(
            f"malformed metadata record of key {api_key} version {version}: {error}"
        ) from error
    if position + size != len(data):
        raise RecordError(
            f"{len(data) - position - size} bytes after a record of key {api_key} v{version}"
        )
    return record


def encode_records(records: Iterable[MetadataRecord]) -> tuple[bytes, ...]:
    """The values of several records."""
    return tuple([encode_record(record) for record in records])


def _encode_config(record: ConfigRecord) -> bytes:
    resource = record.resource_name.encode()
    name = record.name.encode()
    value = None if record.value is None else record.value.encode()
    return b"".join(
        (
            _CONFIG_HEAD,
            record.resource_type.to_bytes(1, "big", signed=True),
            _uvarint(len(resource) + 1),
            resource,
            _uvarint(len(name) + 1),
            name,
            b"\0" if value is None else _uvarint(len(value) + 1) + value,
            b"\0",  # no tagged fields
        )
    )


def _uvarint(value: int) -> bytes:
    if value <= _SEVEN_BITS:
        return _BYTES[value]
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = data[position + index]
        value |= (byte & _SEVEN_BITS) << (7 * index)
        if byte < _MORE:
            return value, position + index + 1
    raise RecordError(f"varint too long: {data[position : position + 8].hex()}")


def _frame(api_key: int, version: int) -> bytes:
    return _uvarint(_FRAME_VERSION) + _uvarint(api_key) + _uvarint(version)


_BYTES = tuple(bytes((n,)) for n in range(128))
_CONFIG_HEAD = _frame(ConfigRecord.__api_key__, ConfigRecord.__version__)
_READERS: Mapping[tuple[int, int], Callable[[bytes, int], tuple[Any, int]]] = {
    (cls.__api_key__, cls.__version__): entity_reader(cls) for cls in ALL_RECORDS
}
_WRITERS: Mapping[type[MetadataRecord], tuple[bytes, Callable[[IO[bytes], Any], None]]] = {
    cls: (_frame(cls.__api_key__, cls.__version__), entity_writer(cls)) for cls in ALL_RECORDS
}
NO_OP = encode_record(NoOpRecord())


# --------------------------------------------------------------------------- JSON


def to_json(record: MetadataRecord) -> dict[str, Any]:
    """A record as {"type", "version", "fields"}: Kafka's record name, our field names, ids in hex.

    Tuples become lists, bytes hex; ``from_json`` reads it back.
    """
    if isinstance(record, OpaqueRecord):
        data = {"api_key": record.api_key, "data": record.data.hex()}
        return {"type": record.name, "version": record.version, "fields": data}
    return {
        "type": _TYPE_NAMES[int(record.__api_key__)],
        "version": int(record.__version__),
        "fields": {f.name: _value_to_json(getattr(record, f.name)) for f in fields(record)},
    }


def from_json(data: Mapping[str, Any]) -> MetadataRecord:
    """Read what ``to_json`` wrote; raises RecordError."""
    try:
        kind, version, values = data["type"], data["version"], data["fields"]
        if kind in _OPAQUE_KEYS:
            return OpaqueRecord(
                api_key=_OPAQUE_KEYS[kind], version=version, data=bytes.fromhex(values["data"])
            )
        cls = _CLASSES[(kind, version)]
        return cls(**{f.name: _value_from_json(values[f.name], f.type) for f in fields(cls)})
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{data!r} is not the JSON of a metadata record: {error!r}") from error


def _value_to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, tuple):
        return [_value_to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _value_to_json(getattr(value, f.name)) for f in fields(value)}
    return value


def _value_from_json(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    inner: tuple[Any, ...] = getattr(type_, "__args__", ())
    if isinstance(value, list):
        item = inner[0] if getattr(type_, "__origin__", None) is tuple else inner[0].__args__[0]
        return tuple(_value_from_json(v, item) for v in value)
    if isinstance(value, Mapping):
        return type_(**{f.name: _value_from_json(value[f.name], f.type) for f in fields(type_)})
    return UUID(hex=value) if type_ is UUID or UUID in inner else value


_TYPE_NAMES: dict[int, str] = {}
_CLASSES: dict[tuple[str, int], type[MetadataRecord]] = {}
for _cls in ALL_RECORDS:  # the first class of a key carries Kafka's name, later ones add a version
    _name = _TYPE_NAMES.setdefault(int(_cls.__api_key__), _cls.__name__)
    _CLASSES[(_name, int(_cls.__version__))] = _cls
_OPAQUE_KEYS = {name: key for key, name in _OPAQUE.items()}

__all__ = [
    "NO_OP",
    "MetadataRecord",
    "OpaqueRecord",
    "RecordError",
    "decode_record",
    "encode_record",
    "encode_records",
    "from_json",
    "to_json",
]
