"""Effects say what a replica wants done: ``Replica.step`` returns them, to be run in order.

The order is the safety argument. Within the effects of one step, anything that makes a promise
durable (``PersistElectionState``, ``AppendBatches``, ``FlushLog``, ``TruncateLog``) stands before
the ``Send`` or ``Reply`` that tells somebody about it, and each ``Trace`` before the effect it
describes becomes visible outside. A driver that runs effects out of order breaks Raft.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.core.messages import Batch, ControlRecords, Records, Request, Response
from node.core.types import ElectionState, Endpoint, OffsetAndEpoch, VoterSet
from node.core.values import value


@value
class PersistElectionState:
    """Write and fsync ``quorum-state`` before anything that follows."""

    state: ElectionState


@value
class AppendAsLeader:
    """Encode and append one batch; its first record gets ``base_offset``, which is the log end."""

    base_offset: int
    epoch: int
    content: ControlRecords | Records


@value
class AppendBatches:
    """Append the leader's batches as they are (follower, observer)."""

    batches: tuple[Batch, ...]


@value
class FlushLog:
    """Fsync the log; when done step ``LogFlushed(upto)``. Need not block the effects after it."""

    upto: int


@value
class TruncateLog:
    """Drop every record at or above ``to``, and prune the epoch cache."""

    to: int


@value
class OpenSnapshot:
    """Begin to receive a snapshot into a partial file; one left from before is discarded."""

    id: OffsetAndEpoch


@value
class WriteSnapshot:
    """Append bytes to the partial snapshot; ``position`` is how many it has already."""

    id: OffsetAndEpoch
    position: int
    data: bytes


@value
class InstallSnapshot:
    """The partial snapshot is whole: check it, make it durable, begin the log anew after it.

    Step ``SnapshotInstalled`` or ``SnapshotRejected`` before anything else.
    """

    id: OffsetAndEpoch


@value
class DiscardSnapshot:
    """Delete the partial snapshot: this replica does not follow that leader any more."""

    id: OffsetAndEpoch


@value
class VotersChanged:
    """The voter set in force is another one now (latest in the log, committed or not)."""

    voters: VoterSet
    kraft_version: int


@value
class Send:
    """Send a request; answer with ``ResponseReceived`` or ``SendFailed`` of the same correlation.

    ``peer`` is a node id, or negative for a bootstrap server whose id is not known.
    """

    peer: int
    endpoint: Endpoint
    correlation: int
    request: Request
    timeout_ms: int


@value
class ResetConnections:
    """Drop outgoing connections: answers to an earlier role must not be heard any more."""


@value
class Reply:
    """Answer the request of that token."""

    token: int
    response: Response


@value
class HighWatermarkAdvanced:
    """Records below ``high_watermark`` (exclusive) are committed and may be applied."""

    high_watermark: int


@value
class ProposalAccepted:
    """The entries of that proposal are in the log, the last record at ``last_offset``."""

    token: int
    base_offset: int
    last_offset: int


@value
class ProposalRejected:
    """The proposal was refused, by no leader or in another epoch: nothing was written."""

    token: int
    leader_id: int | None


@value
class LeadershipAcquired:
    """This replica leads ``epoch``; claim the controller once applied up to ``epoch_start`` + 1."""

    epoch: int
    epoch_start: int


@value
class LeadershipLost:
    """This replica leads ``epoch`` no more: pending operations have an unknown outcome."""

    epoch: int


@value
class BarrierConfirmed:
    """Leadership was confirmed; state applied up to ``read_offset`` (exclusive) may be read."""

    token: int
    read_offset: int


@value
class BarrierFailed:
    """This replica does not lead (any more): the read must go elsewhere."""

    token: int
    leader_id: int | None


@value
class Trace:
    """Write one protocol event of ``epoch`` to the trace; ``fields`` are JSON values."""

    type: str
    epoch: int
    fields: Mapping[str, Any]


@value
class Fatal:
    """The state is illegal: the process must log it and die; it must never go on."""

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
