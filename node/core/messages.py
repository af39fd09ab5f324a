"""The RPCs of the quorum as plain data; ``node.wire`` maps them to and from Kafka's schemas.

Each request names its sender and receiver by replica key where the Kafka schema does. ``epoch``
is always the sender's. Errors are Kafka error codes (``Error``).
Source: KIP-595, KIP-853 (directory ids), KIP-996 (pre-vote), KIP-1166 (high watermark in Fetch).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey


class Error(IntEnum):
    """The Kafka error codes that the quorum speaks."""

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
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Ask for a vote, or with ``pre_vote`` whether one would be given (key 52)."""

    candidate: ReplicaKey
    epoch: int
    last: OffsetAndEpoch  # offset = the candidate's log end offset
    pre_vote: bool
    voter: ReplicaKey | None = None  # whom it is addressed to; None = not said
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """Answer to a vote request."""

    error: Error
    epoch: int
    leader_id: int | None
    granted: bool
    leader_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A leader announces itself to a voter (key 53)."""

    leader_id: int
    epoch: int
    leader_endpoint: Endpoint
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns and names its preferred successors, best first (key 54)."""

    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...]
    leader_endpoint: Endpoint | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class QuorumEpochResponse:
    """Answer to BeginQuorumEpoch and EndQuorumEpoch."""

    error: Error
    epoch: int
    leader_id: int | None
    leader_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records the driver reads from its log when it writes the reply: whole batches from offset."""

    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch as the core sees it: position, epoch, fingerprint and opaque bytes.

    ``crc`` is the batch's own CRC-32C, already verified by whoever made this object; ``data`` is
    the whole batch in Kafka's format v2 and never looked into here.
    """

    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    is_control: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Answer to a fetch: at most one of ``records``, ``diverging``.

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
    records: RecordRange | None = None
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """Ask the leader for the state of the quorum (key 55)."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Progress of one replica as its leader sees it; times are the leader's clock in ms."""

    key: ReplicaKey
    log_end_offset: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    """The leader's view of the quorum."""

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
    | DescribeQuorumRequest
)
Response = VoteResponse | QuorumEpochResponse | FetchResponse | DescribeQuorumResponse


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """Content of the control batch that opens an epoch (KIP-595 LeaderChangeMessage)."""

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one atomic operation, opaque to the core; they become exactly one batch."""

    count: int
    payload: Any  # a tuple of metadata records; the driver's encoder knows the type
