"""The records that logs are full of, read by hand: some three times as fast as by their plans.

A reader here takes the usual form of its record and nothing else. What is not of that form, with
tagged fields where few have them or malformed, gives None: the plans of ``codec`` read it or say
what is wrong with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from node.metadata.codec import intern_id, intern_ids, intern_ints
from node.metadata.schemas import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
)

_MORE = 0x80  # a length from here on has more than one byte: not the usual form
_HEAD = 3  # bytes of the frame before the message: frame version, key, version
_PARTITION_ID = struct.Struct(">i16s")
_LEADER = struct.Struct(">iii")
_INT32 = struct.Struct(">i")
_INT8 = struct.Struct(">b")
_CHANGED_INTS = {
    0: "isr",
    2: "replicas",
    3: "removing_replicas",
    4: "adding_replicas",
    6: "eligible_leader_replicas",
    7: "last_known_elr",
}
_ELR = (6, 7)


def read_usual(data: bytes) -> MetadataRecord | None:
    """The record of a framed value; None if it is not one of the usual ones."""
    reader = _READERS.get(data[:_HEAD])
    if reader is None:
        return None
    try:
        return reader(data)
    except (IndexError, ValueError, struct.error):
        return None


def _partition(version: int, data: bytes) -> PartitionRecord | None:
    partition_id, topic_id = _PARTITION_ID.unpack_from(data, _HEAD)
    replicas, at = _ints(data, _HEAD + _PARTITION_ID.size)
    isr, at = _ints(data, at)
    removing, at = _ints(data, at)
    adding, at = _ints(data, at)
    leader, leader_epoch, partition_epoch = _LEADER.unpack_from(data, at)
    at += _LEADER.size
    directories: tuple[Any, ...] = ()
    if version:
        start = at + 1
        at = start + 16 * _count(data, at)
        directories = intern_ids(data[start:at])
    if data[at] or at + 1 != len(data):
        return None
    return PartitionRecord(
        version=version,
        partition_id=partition_id,
        topic_id=intern_id(topic_id),
        replicas=replicas,
        isr=isr,
        removing_replicas=removing,
        adding_replicas=adding,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=directories,
    )


def _partition_change(version: int, data: bytes) -> PartitionChangeRecord | None:
    partition_id, topic_id = _PARTITION_ID.unpack_from(data, _HEAD)
    at = _HEAD + _PARTITION_ID.size
    changes: dict[str, Any] = {}
    for _ in range(_byte(data, at)):
        number, size, start = data[at + 1], _byte(data, at + 2), at + 3
        at = start + size - 1  # of the last byte
        name = _CHANGED_INTS.get(number)
        if number == 1 and size == _INT32.size:
            changes["leader"] = _INT32.unpack_from(data, start)[0]
        elif name and size == 1 + _INT32.size * (data[start] - 1):
            if number in _ELR and version < 2:  # noqa: PLR2004 - the version that brought them
                return None
            changes[name] = intern_ints(data[start + 1 : at + 1])
        else:
            return None
    if at + 1 != len(data):
        return None
    return PartitionChangeRecord(
        version=version, partition_id=partition_id, topic_id=intern_id(topic_id), **changes
    )


def _config(data: bytes) -> ConfigRecord | None:
    start = _HEAD + 2
    at = start + _count(data, _HEAD + 1)
    name = at + 1
    end = name + _count(data, at)
    value: str | None = None
    last = end + 1
    if data[end]:
        last = end + 1 + _count(data, end)
        value = data[end + 1 : last].decode()
    if data[last] or last + 1 != len(data):
        return None
    return ConfigRecord(
        resource_type=_INT8.unpack_from(data, _HEAD)[0],
        resource_name=data[start:at].decode(),
        name=data[name:end].decode(),
        value=value,
    )


def _ints(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    end = at + 1 + 4 * _count(data, at)
    return intern_ints(data[at + 1 : end]), end


def _count(data: bytes, at: int) -> int:
    """The compact length that lies there; IndexError if it is null or takes more than a byte."""
    length = _byte(data, at)
    if not length:
        raise IndexError
    return length - 1


def _byte(data: bytes, at: int) -> int:
    """The varint that lies there in one byte; IndexError if it takes more."""
    value = data[at]
    if value >= _MORE:
        raise IndexError
    return value


_VERSIONED: Mapping[type[MetadataRecord], Callable[[int, bytes], MetadataRecord | None]] = {
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
}
_READERS: Mapping[bytes, Callable[[bytes], MetadataRecord | None]] = {
    bytes((1, ConfigRecord.KEY, 0)): _config,
    **{
        bytes((1, cls.KEY, version)): partial(reader, version)
        for cls, reader in (
            (PartitionRecord, _partition),
            (PartitionChangeRecord, _partition_change),
        )
        for version in range(cls.HIGHEST + 1)
    },
}
