"""What a replica wants done: the effects that ``Replica.step`` returns, to be run in order.

The order is the safety argument. Within the effects of one step, anything that makes a promise
durable (``PersistElectionState``, ``AppendBatches``, ``FlushLog``, ``TruncateLog``) stands before
the ``Send`` or ``Reply`` that tells somebody about it, and each ``Trace`` before the effect it
describes becomes visible outside. A driver that runs effects out of order breaks Raft.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from node.core.messages import Batch, ControlRecords, Records, Request, Response
from node.core.types import ElectionState, Endpoint, OffsetAndEpoch, VoterSet

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from node.core.values import dataclass


@dataclass(frozen=True, slots=True)
class PersistElectionState:
    """Write and fsync ``quorum-state`` before anything that follows."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendAsLeader:
    """Encode and append one batch; its first record gets ``base_offset``, which is the log end."""

    base_offset: int
    epoch: int
    content: ControlRecords | Records


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Append the leader's batches as they are (follower, observer)."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Fsync the log; when done step ``LogFlushed(upto)``. Need not block the effects after it."""

    upto: int


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Drop every record at or above ``to``, and prune the epoch cache."""

    to: int


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """Begin to receive a snapshot into a partial file; one left from before is discarded."""

    id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Append bytes to the partial snapshot; ``position`` is how many it has already."""

    id: OffsetAndEpoch
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The partial snapshot is whole: check it, make it durable, begin the log anew after it.

    Step ``SnapshotInstalled`` or ``SnapshotRejected`` before anything else.
    """

    id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Delete the partial snapshot: this replica does not follow that leader any more."""

    id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The voter set in force is another one now (latest in the log, committed or not)."""

    voters: VoterSet
    kraft_version: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; answer with ``ResponseReceived`` or ``SendFailed`` of the same correlation.

    ``peer`` is a node id, or negative for a bootstrap server whose id is not known.
    """

    peer: int
    endpoint: Endpoint
    correlation: int
    request: Request
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ResetConnections:
    """Drop outgoing connections: answers to an earlier role must not be heard any more."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request of that token."""

    token: int
    response: Response


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Records below ``high_watermark`` (exclusive) are committed and may be applied."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class ProposalAccepted:
    """The entries of that proposal are in the log, the last record at ``last_offset``."""

    token: int
    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class ProposalRejected:
    """Not leader, or another epoch: nothing was written."""

    token: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class LeadershipAcquired:
    """This replica leads ``epoch``; claim the controller once applied up to ``epoch_start`` + 1."""

    epoch: int
    epoch_start: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """No longer leader of ``epoch``: pending operations have an unknown outcome."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BarrierConfirmed:
    """Leadership was confirmed; state applied up to ``read_offset`` (exclusive) may be read."""

    token: int
    read_offset: int


@dataclass(frozen=True, slots=True)
class BarrierFailed:
    """Not leader (any more): the read must go elsewhere."""

    token: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """One protocol event of ``epoch`` for the trace; ``fields`` are JSON values."""

    type: str
    epoch: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fatal:
    """An illegal state: the process must log it and die; it must never go on."""

    reason: str


Effect = (
    PersistElectionState
    | AppendAsLeader
    | AppendBatches
    | FlushLog
    | TruncateLog
    | OpenSnapshot
    | WriteSnapshot
    | InstallSnapshot
    | DiscardSnapshot
    | VotersChanged
    | Send
    | ResetConnections
    | Reply
    | HighWatermarkAdvanced
    | ProposalAccepted
    | ProposalRejected
    | LeadershipAcquired
    | LeadershipLost
    | BarrierConfirmed
    | BarrierFailed
    | Trace
    | Fatal
)
