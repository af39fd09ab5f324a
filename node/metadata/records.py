"""Metadata records as bytes of the log, and as JSON for people and checkers.

The value of a data record is a frame: frame version 1, API key and version, each an unsigned
varint, then the flexible message. Source: Kafka's MetadataRecordSerde; KIP-631.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from node.metadata.codec import field_names, read_record, read_uvarint, uvarint, write_record
from node.metadata.hot import read_usual
from node.metadata.schemas import ALL_RECORDS, MetadataRecord, NoOpRecord

_FRAME_VERSION = 1


class RecordError(ValueError):
    """Raised when bytes or JSON are no metadata record that this node knows; it must stop."""


# --------------------------------------------------------------------------- bytes


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a data record of the log; raises RecordError when a value does not fit."""
    try:
        return _HEADS[type(record), record.version] + write_record(record)
    except (KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise RecordError(f"{record} cannot be written: {error}") from error


def head(cls: type[MetadataRecord], version: int) -> bytes:
    """Give the frame before the message of a record in a version that it has."""
    return _HEADS[cls, version]


def decode_record(data: bytes) -> MetadataRecord:
    """Read the value of a data record; raises RecordError.

    A kind or a version that this node does not know is refused too: what it means for the state
    cannot be guessed.
    """
    usual = read_usual(data)
    if usual is not None:
        return usual
    try:
        frame, position = read_uvarint(data, 0)
        api_key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except ValueError as error:
        raise RecordError(f"metadata record frame {data[:32].hex()}: {error}") from None
    if frame != _FRAME_VERSION:
        raise RecordError(f"metadata record frame version {frame}, want {_FRAME_VERSION}")
    cls = _BY_KEY.get(api_key)
    if cls is None or version > cls.HIGHEST:
        raise RecordError(
            f"metadata record of key {api_key} version {version} is not known to this node"
        )
    try:
        record, end = read_record(cls, version, data, position)
    except (ValueError, struct.error) as error:
        raise RecordError(
            f"malformed metadata record of key {api_key} version {version}: {error}"
        ) from error
    if end != len(data):
        raise RecordError(f"{len(data) - end} bytes after a record of key {api_key} v{version}")
    return record


def encode_records(records: Iterable[MetadataRecord]) -> tuple[bytes, ...]:
    """The values of several records."""
    return tuple([encode_record(record) for record in records])


_BY_KEY: Mapping[int, type[MetadataRecord]] = {cls.KEY: cls for cls in ALL_RECORDS}
_HEADS: Mapping[tuple[type[MetadataRecord], int], bytes] = {
    (cls, version): uvarint(_FRAME_VERSION) + uvarint(cls.KEY) + uvarint(version)
    for cls in ALL_RECORDS
    for version in range(cls.HIGHEST + 1)
}
NO_OP = encode_record(NoOpRecord())


# --------------------------------------------------------------------------- JSON


def to_json(record: MetadataRecord) -> dict[str, Any]:
    """A record as {"type", "version", "fields"}: Kafka's record name, our field names, ids in hex.

    Tuples become lists, bytes base64; fields that the version lacks are left out. ``from_json``
    reads it back.
    """
    names = field_names(type(record), record.version)
    return {
        "type": type(record).__name__,
        "version": record.version,
        "fields": {name: _plain(getattr(record, name)) for name in names},
    }


def from_json(data: Mapping[str, Any]) -> MetadataRecord:
    """Read what ``to_json`` wrote; raises RecordError."""
    try:
        cls = _BY_NAME[data["type"]]
        version = range(cls.HIGHEST + 1).index(data["version"])
        return msgspec.convert({**data["fields"], "version": version}, cls)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{data!r} is not the JSON of a metadata record: {error!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)


_BY_NAME: Mapping[str, type[MetadataRecord]] = {cls.__name__: cls for cls in ALL_RECORDS}

__all__ = [
    "NO_OP",
    "MetadataRecord",
    "RecordError",
    "decode_record",
    "encode_record",
    "encode_records",
    "from_json",
    "to_json",
]
