"""Control records: what the quorum writes into the log about itself, and snapshots about theirs.

Key: (version i16, type i16). Value: a flexible message that begins with its own version. Types
that are not known are skipped, as Kafka does; a known type that cannot be read is an error.
Source: Kafka's ControlRecordType, LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord,
KRaftVersionRecord, VotersRecord; KIP-595, KIP-630, KIP-853. Schemas are kio's but one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as LeaderChangeMessageV1
from kio.schema.leader_change_message.v1.data import Voter as VoterV1
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as voters_v0
from kio.static.primitive import i16, i32, i64, u16

from node.core.messages import ControlRecord, KRaftVersion, LeaderChange, Voters
from node.core.types import Endpoint, Listener, ReplicaKey, VersionRange, VoterSet
from node.core.types import Voter as VoterOfSet
from node.log.control.schemas import KRaftVersionRecord
from node.log.layout import uuid_to_text
from node.wire.errors import LocalProtocolError, RemoteProtocolError
from node.wire.payloads import decode, encode

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6
TYPE_NAMES: Mapping[int, str] = {
    0: "AbortMarker",
    1: "CommitMarker",
    LEADER_CHANGE: "LeaderChange",
    SNAPSHOT_HEADER: "SnapshotHeader",
    SNAPSHOT_FOOTER: "SnapshotFooter",
    KRAFT_VERSION: "KRaftVersion",
    KRAFT_VOTERS: "KRaftVoters",
}
_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
_VERSION_BYTES = 2
_ELEMENTS_MAX = 10_000  # voters, endpoints and tagged fields in one record
_SCHEMAS: Mapping[tuple[int, int], type] = {  # (type, version of the value)
    (LEADER_CHANGE, 0): LeaderChangeMessage,
    (LEADER_CHANGE, 1): LeaderChangeMessageV1,
    (SNAPSHOT_HEADER, 0): SnapshotHeaderRecord,
    (SNAPSHOT_FOOTER, 0): SnapshotFooterRecord,
    (KRAFT_VERSION, 0): KRaftVersionRecord,
    (KRAFT_VOTERS, 0): voters_v0.VotersRecord,
}
_KNOWN = frozenset(kind for kind, _ in _SCHEMAS)


class ControlRecordError(ValueError):
    """Raised when a control record cannot be read, or its content has no form in the log."""


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """First record of a snapshot: append time of the last record it covers, in ms since 1970."""

    last_contained_log_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """Last record of a snapshot."""


AnyControl = ControlRecord | SnapshotHeader | SnapshotFooter


# --------------------------------------------------------------------------- bytes


def encode_control(record: AnyControl) -> tuple[bytes, bytes]:
    """Key and value of a control record; raises ControlRecordError when a field does not fit."""
    try:
        kind, entity = _to_entity(record)
        return _KEY.pack(_KEY_VERSION, kind), encode(entity)
    except (LocalProtocolError, TypeError, ValueError) as error:  # kio's integers check ranges
        raise ControlRecordError(f"{record!r:.500} cannot be written: {error}") from error


def decode_control(key: bytes | None, value: bytes | None) -> AnyControl | None:
    """The content of a control record, None for a type that is not known.

    Raises:
        ControlRecordError: The key is none, or the value is not what its type and version say.
    """
    kind = control_type(key)
    if kind not in _KNOWN:
        return None
    return _from_entity(_read(kind, value or b""))


def decode_controls(
    records: Iterable[tuple[int, bytes | None, bytes | None]],
) -> tuple[ControlRecord, ...]:
    """Decode a control batch's (offset, key, value) triples; keep those that the quorum acts upon.

    Raises ControlRecordError.
    """
    found = (decode_control(key, value) for _, key, value in records)
    return tuple(r for r in found if isinstance(r, LeaderChange | KRaftVersion | Voters))


def control_type(key: bytes | None) -> int:
    """The type in a control record's key; raises ControlRecordError."""
    try:
        return int(_KEY.unpack(key or b"")[1])
    except struct.error as error:
        raise ControlRecordError(f"control record key {key!r}: want (version, type)") from error


def _read(kind: int, value: bytes) -> Any:
    name = TYPE_NAMES[kind]
    version = int.from_bytes(value[:_VERSION_BYTES], "big", signed=True)
    schema = _SCHEMAS.get((kind, version)) if len(value) >= _VERSION_BYTES else None
    if schema is None:
        raise ControlRecordError(f"{name} of {len(value)} bytes, version {version}, is not known")
    try:
        return decode(schema, value, elements_max=_ELEMENTS_MAX)
    except RemoteProtocolError as error:
        raise ControlRecordError(f"malformed {name} {value[:200].hex()}: {error}") from error


# --------------------------------------------------------------------------- kio's entities


def _to_entity(record: AnyControl) -> tuple[int, Any]:
    match record:
        case LeaderChange():
            return LEADER_CHANGE, _leader_change_entity(record)
        case SnapshotHeader(timestamp):
            header = SnapshotHeaderRecord(
                version=i16(0), last_contained_log_timestamp=i64(timestamp)
            )
            return SNAPSHOT_HEADER, header
        case SnapshotFooter():
            return SNAPSHOT_FOOTER, SnapshotFooterRecord(version=i16(0))
        case KRaftVersion(level):
            return KRAFT_VERSION, KRaftVersionRecord(version=i16(0), k_raft_version=i16(level))
        case Voters(voters):
            entities = tuple(_voter_entity(voter) for voter in voters)
            return KRAFT_VOTERS, voters_v0.VotersRecord(version=i16(0), voters=entities)


def _from_entity(entity: Any) -> AnyControl:
    if isinstance(entity, LeaderChangeMessage | LeaderChangeMessageV1):
        return _leader_change(entity)
    if isinstance(entity, SnapshotHeaderRecord):
        return SnapshotHeader(int(entity.last_contained_log_timestamp))
    if isinstance(entity, SnapshotFooterRecord):
        return SnapshotFooter()
    if isinstance(entity, KRaftVersionRecord):
        return KRaftVersion(int(entity.k_raft_version))
    voters = tuple(_voter(voter) for voter in entity.voters)
    if len({voter.key.id for voter in voters}) != len(voters):
        raise ControlRecordError(f"voters {[v.key.id for v in voters]}: an id occurs twice")
    return Voters(VoterSet.of(*voters))


def _leader_change_entity(change: LeaderChange) -> LeaderChangeMessage | LeaderChangeMessageV1:
    if not change.directory_ids:
        return LeaderChangeMessage(
            version=i16(0),
            leader_id=BrokerId(change.leader_id),
            voters=tuple(Voter(voter_id=i32(v)) for v in change.voter_ids),
            granting_voters=tuple(Voter(voter_id=i32(v)) for v in change.granting_ids),
        )

    def voters(ids: tuple[int, ...]) -> tuple[VoterV1, ...]:
        known = change.directory_ids
        return tuple(VoterV1(voter_id=i32(v), voter_directory_id=known.get(v)) for v in ids)

    return LeaderChangeMessageV1(
        version=i16(1),
        leader_id=BrokerId(change.leader_id),
        voters=voters(change.voter_ids),
        granting_voters=voters(change.granting_ids),
    )


def _leader_change(message: LeaderChangeMessage | LeaderChangeMessageV1) -> LeaderChange:
    keyed = (
        (*message.voters, *message.granting_voters)
        if isinstance(message, LeaderChangeMessageV1)
        else ()
    )
    return LeaderChange(
        leader_id=int(message.leader_id),
        voter_ids=tuple(int(v.voter_id) for v in message.voters),
        granting_ids=tuple(int(v.voter_id) for v in message.granting_voters),
        directory_ids={int(v.voter_id): v.voter_directory_id for v in keyed},
    )


def _voter_entity(voter: VoterOfSet) -> voters_v0.Voter:
    listeners = voter.listeners
    if not listeners:
        raise ControlRecordError(f"voter {voter.key} has no named listener to be written")
    return voters_v0.Voter(
        voter_id=BrokerId(voter.key.id),
        voter_directory_id=voter.key.directory_id,
        endpoints=tuple(
            voters_v0.Endpoint(name=at.name, host=at.endpoint.host, port=u16(at.endpoint.port))
            for at in listeners
        ),
        k_raft_version_feature=voters_v0.KRaftVersionFeature(
            min_supported_version=i16(voter.kraft_versions.min),
            max_supported_version=i16(voter.kraft_versions.max),
        ),
    )


def _voter(voter: voters_v0.Voter) -> VoterOfSet:
    """A voter as it was written; the first listener is the one to speak to."""
    if not voter.endpoints:
        raise ControlRecordError(f"voter {voter.voter_id} has no endpoint")
    listeners = tuple(Listener(e.name, Endpoint(e.host, int(e.port))) for e in voter.endpoints)
    supported = voter.k_raft_version_feature
    return VoterOfSet(
        key=ReplicaKey(int(voter.voter_id), voter.voter_directory_id),
        endpoint=listeners[0].endpoint,
        listeners=listeners,
        kraft_versions=VersionRange(
            int(supported.min_supported_version), int(supported.max_supported_version)
        ),
    )


# --------------------------------------------------------------------------- for people


def control_to_json(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A control record as {"type", "fields"}; of types not known the bytes are shown."""
    kind = control_type(key)
    record = decode_control(key, value)
    name = TYPE_NAMES.get(kind, f"Control{kind}")
    return {
        "type": name,
        "fields": {"value": (value or b"").hex()} if record is None else _fields(record),
    }


def _fields(record: AnyControl) -> dict[str, Any]:
    match record:
        case LeaderChange():
            fields: dict[str, Any] = {
                "leader_id": record.leader_id,
                "voter_ids": list(record.voter_ids),
                "granting_ids": list(record.granting_ids),
            }
            if record.directory_ids:
                fields["directory_ids"] = {
                    str(node): directory and uuid_to_text(directory)
                    for node, directory in record.directory_ids.items()
                }
            return fields
        case SnapshotHeader(timestamp):
            return {"last_contained_log_timestamp": timestamp}
        case SnapshotFooter():
            return {}
        case KRaftVersion(level):
            return {"level": level}
        case Voters(voters):
            return {"voters": [_voter_fields(voter) for voter in voters]}


def _voter_fields(voter: VoterOfSet) -> dict[str, Any]:
    directory = voter.key.directory_id
    return {
        "id": voter.key.id,
        "directory_id": directory and uuid_to_text(directory),
        "endpoints": [f"{at.name}://{at.endpoint}" for at in voter.listeners],
        "kraft_versions": list(voter.kraft_versions),
    }
