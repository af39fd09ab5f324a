"""Control records: what the quorum writes into the log about itself.

Key: (version i16, type i16). The leader-change record opens every epoch. Source: Kafka's
ControlRecordType and LeaderChangeMessage; KIP-595. Schemas are kio's.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as LeaderChangeMessageV1
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from node.core.messages import LeaderChange
from node.log.batch import Record

LEADER_CHANGE = 2
TYPE_NAMES: Mapping[int, str] = {
    0: "AbortMarker",
    1: "CommitMarker",
    LEADER_CHANGE: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
_LEADER_CHANGE_VERSION = 0

_write_leader_change = entity_writer(LeaderChangeMessage)
_read_leader_change: Mapping[int, Callable[[bytes, int], tuple[Any, int]]] = {
    0: entity_reader(LeaderChangeMessage),
    1: entity_reader(LeaderChangeMessageV1),
}


class ControlRecordError(ValueError):
    """Raised when a control record cannot be read."""


def encode_leader_change(change: LeaderChange) -> Record:
    """Key and value of the record that opens an epoch."""
    message = LeaderChangeMessage(
        version=i16(_LEADER_CHANGE_VERSION),
        leader_id=BrokerId(change.leader_id),
        voters=tuple(Voter(voter_id=i32(v)) for v in change.voter_ids),
        granting_voters=tuple(Voter(voter_id=i32(v)) for v in change.granting_ids),
    )
    buffer = io.BytesIO()
    _write_leader_change(buffer, message)
    return _KEY.pack(_KEY_VERSION, LEADER_CHANGE), buffer.getvalue()


def control_type(key: bytes | None) -> int:
    """The type in a control record's key; raises ControlRecordError."""
    try:
        return int(_KEY.unpack(key or b"")[1])
    except struct.error as error:
        raise ControlRecordError(f"control record key {key!r}: want (version, type)") from error


def decode_leader_change(value: bytes | None) -> LeaderChange:
    """The content of a leader-change record; raises ControlRecordError."""
    data = value or b""
    version = int.from_bytes(data[:2], "big", signed=True)
    reader = _read_leader_change.get(version)
    if reader is None:
        raise ControlRecordError(f"leader change version {version} is not known")
    try:
        message, _ = reader(data, 0)
    except Exception as error:  # kio raises many kinds for malformed bytes
        raise ControlRecordError(f"malformed leader change {data.hex()}: {error}") from error
    return LeaderChange(
        leader_id=int(message.leader_id),
        voter_ids=tuple(int(v.voter_id) for v in message.voters),
        granting_ids=tuple(int(v.voter_id) for v in message.granting_voters),
    )


def control_to_json(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A control record as {"type", "fields"}; types other than LeaderChange show their bytes."""
    kind = control_type(key)
    name = TYPE_NAMES.get(kind, f"Control{kind}")
    if kind != LEADER_CHANGE:
        return {"type": name, "fields": {"value": (value or b"").hex()}}
    change = decode_leader_change(value)
    return {
        "type": name,
        "fields": {
            "leader_id": change.leader_id,
            "voter_ids": list(change.voter_ids),
            "granting_ids": list(change.granting_ids),
        },
    }
