"""Messages are the RPCs of the quorum; ``node.wire`` maps them to and from Kafka's schemas.

Each request names its sender and receiver by replica key where the Kafka schema does. ``epoch``
is always the sender's. Errors are Kafka error codes (``Error``).
Source: KIP-595, KIP-853 (directory ids), KIP-996 (pre-vote), KIP-1166 (high watermark in Fetch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import Any
from uuid import UUID

from node.core.types import Endpoint, Listener, OffsetAndEpoch, ReplicaKey, VersionRange, VoterSet
from node.core.values import value


class Error(IntEnum):
    """An error is one of the Kafka error codes that the quorum speaks."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_UPDATE_VERSION = 95
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127


@value
class VoteRequest:
    """Ask for a vote, or with ``pre_vote`` whether one would be given (key 52)."""

    candidate: ReplicaKey
    epoch: int
    last: OffsetAndEpoch  # offset = the candidate's log end offset
    pre_vote: bool
    voter: ReplicaKey | None = None  # whom it is addressed to; None = not said
    cluster_id: str | None = None


@value
class VoteResponse:
    """Answer a vote request."""

    error: Error
    epoch: int
    leader_id: int | None
    granted: bool
    leader_endpoint: Endpoint | None = None


@value
class BeginQuorumEpochRequest:
    """A leader announces itself to a voter (key 53)."""

    leader_id: int
    epoch: int
    leader_endpoint: Endpoint
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


@value
class EndQuorumEpochRequest:
    """A leader resigns and names its preferred successors, best first (key 54)."""

    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...]
    leader_endpoint: Endpoint | None = None
    cluster_id: str | None = None


@value
class QuorumEpochResponse:
    """Answer BeginQuorumEpoch and EndQuorumEpoch."""

    error: Error
    epoch: int
    leader_id: int | None
    leader_endpoint: Endpoint | None = None


@value
class FetchRequest:
    """Replicate from the leader; from a voter, a promise that all below ``offset`` is on disk.

    ``replica.id`` is -1 for an anonymous reader. ``high_watermark`` is what the fetcher knows,
    None = never wake me for it (before v18).
    """

    replica: ReplicaKey
    epoch: int
    offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    high_watermark: int | None = None
    cluster_id: str | None = None


@value
class RecordRange:
    """The driver reads these records from its log when it writes the reply: whole batches."""

    offset: int
    max_bytes: int


@value
class LeaderChange:
    """This control record opens an epoch (KIP-595 LeaderChangeMessage).

    Directory ids are None where the quorum is static (record version 0).
    """

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]
    directory_ids: Mapping[int, UUID | None] = field(default_factory=dict)


@value
class KRaftVersion:
    """This control record sets the level of ``kraft.version`` (KIP-853)."""

    level: int


@value
class Voters:
    """This control record sets the voters (KIP-853), as soon as it is in the log."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersion | Voters


@value
class ControlRecords:
    """These control records become exactly one control batch, in this order."""

    records: tuple[ControlRecord, ...]


@value
class Batch:
    """A batch has position, epoch, fingerprint and bytes that the core does not read.

    ``crc`` is the batch's own CRC-32C, already verified by whoever made this object; ``data`` is
    the whole batch in Kafka's format v2 and never looked into here.
    ``controls`` are the records of a control batch that the quorum knows, decoded by the maker.
    """

    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    is_control: bool
    data: bytes
    controls: tuple[ControlRecord, ...] = ()


@value
class FetchResponse:
    """Answer a fetch, with at most one of ``records``, ``diverging``, ``snapshot``.

    The leader side sets ``records`` to a RecordRange for the driver to fill; the fetching side
    receives ``batches``, CRC-checked, in offset order.
    """

    error: Error
    epoch: int
    leader_id: int | None
    high_watermark: int | None = None
    log_start_offset: int = 0
    leader_endpoint: Endpoint | None = None
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None  # fetch this snapshot first: the log begins after it
    records: RecordRange | None = None
    batches: tuple[Batch, ...] = ()


@value
class FetchSnapshotRequest:
    """Ask the leader for the bytes of a snapshot from ``position`` on (key 59)."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int
    cluster_id: str | None = None


@value
class SnapshotRange:
    """The driver reads these bytes from its snapshot when it writes the reply."""

    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


@value
class FetchSnapshotResponse:
    """Answer a snapshot fetch; ``size`` is that of the whole snapshot, in bytes.

    The leader side sets ``chunk`` for the driver to read; the fetching side receives ``data``.
    """

    error: Error
    epoch: int
    leader_id: int | None
    leader_endpoint: Endpoint | None = None
    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    chunk: SnapshotRange | None = None
    data: bytes = b""


@value
class AddVoterRequest:
    """Ask the leader to make a caught-up observer a voter (key 80)."""

    voter: ReplicaKey
    listeners: tuple[Listener, ...]
    timeout_ms: int
    cluster_id: str | None = None
    ack_when_committed: bool = True


@value
class RemoveVoterRequest:
    """Ask the leader to remove a voter, which may be itself (key 81)."""

    voter: ReplicaKey
    cluster_id: str | None = None


@value
class UpdateVoterRequest:
    """A voter tells its leader new listeners or supported versions (key 82)."""

    voter: ReplicaKey
    epoch: int
    listeners: tuple[Listener, ...]
    kraft_versions: VersionRange
    cluster_id: str | None = None


@value
class UpgradeVersionRequest:
    """Ask this very node, as leader, for another kraft.version; part of UpdateFeatures (key 57)."""

    level: int
    validate_only: bool = False


@value
class VoterChangeResponse:
    """Answer a change of the voters or the kraft.version; only UpdateVoter's says who leads."""

    error: Error
    epoch: int
    leader_id: int | None
    leader_endpoint: Endpoint | None = None
    message: str | None = None


@value
class ProbeVersionsRequest:
    """A leader asks a node that wants to be a voter for its kraft.version (ApiVersions)."""


@value
class ProbeVersionsResponse:
    """The node answered; ``kraft_versions`` is None when it does not say."""

    error: Error
    kraft_versions: VersionRange | None


@value
class DescribeQuorumRequest:
    """Ask the leader for the state of the quorum (key 55)."""


@value
class ReplicaStatus:
    """A status tells the progress of one replica; times are the leader's clock in ms."""

    key: ReplicaKey
    log_end_offset: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@value
class DescribeQuorumResponse:
    """The leader tells its view of the quorum."""

    error: Error
    epoch: int
    leader_id: int | None
    high_watermark: int | None = None
    voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | UpgradeVersionRequest
    | ProbeVersionsRequest
    | DescribeQuorumRequest
)
Response = (
    VoteResponse
    | QuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | ProbeVersionsResponse
    | DescribeQuorumResponse
)


@value
class Records:
    """These records of one atomic operation become one batch; the core does not read them."""

    count: int
    payload: Any  # a tuple of metadata records; the driver's encoder knows the type
