"""Inputs say what happened to a replica: ``Replica.step`` takes them one by one."""

from __future__ import annotations

from node.core.messages import Records, Request, Response
from node.core.types import OffsetAndEpoch, SnapshotInfo, VoterSet
from node.core.values import value


@value
class Tick:
    """Time passed: expired timers fire."""


@value
class RequestReceived:
    """A request arrived. ``token`` names the reply; ``connection`` the link it came by.

    Requests of one connection are answered one at a time: the next one was sent after the reply
    to the one before was received. The read barrier relies on it.
    """

    token: int
    connection: int
    request: Request


@value
class ResponseReceived:
    """The answer to the ``Send`` of that correlation arrived from ``peer``."""

    peer: int
    correlation: int
    response: Response


@value
class SendFailed:
    """The ``Send`` of that correlation got no answer: refused, reset, timed out, unsupported."""

    peer: int
    correlation: int
    reason: str
    unsupported_version: bool = False


@value
class Propose:
    """The controller wants these records in the log, each entry one atomic batch.

    ``epoch`` is the epoch in which they were prepared: a stale one is refused.
    """

    token: int
    epoch: int
    entries: tuple[Records, ...]


@value
class LogFlushed:
    """All records below ``upto`` (exclusive) are on disk."""

    upto: int


@value
class SnapshotsChanged:
    """These complete snapshots are on disk now, oldest first, and the log begins at ``log_start``.

    To be stepped after a snapshot was made and after prefix cleaning, before any other input.
    """

    snapshots: tuple[SnapshotInfo, ...]
    log_start: int


@value
class SnapshotInstalled:
    """The snapshot of an ``InstallSnapshot`` is in place and the log begins and ends with it.

    To be stepped right after the effects that held it. ``voters`` is None for a static quorum;
    ``sha`` is the SHA-256 of the file in hex, for the trace.
    """

    snapshot: SnapshotInfo
    voters: VoterSet | None
    kraft_version: int
    sha: str | None = None


@value
class SnapshotRejected:
    """The bytes of an ``InstallSnapshot`` are no complete snapshot; they are deleted."""

    snapshot: OffsetAndEpoch
    reason: str


@value
class ReadBarrier:
    """Confirm leadership by fetches begun after now, then say up to where it is safe to read."""

    token: int


@value
class Resign:
    """The controller gives up the leadership of ``epoch``."""

    epoch: int


@value
class Shutdown:
    """Leave the quorum gracefully: a leader resigns and tells its successors."""


Input = (
    Tick
    | RequestReceived
    | ResponseReceived
    | SendFailed
    | Propose
    | LogFlushed
    | SnapshotsChanged
    | SnapshotInstalled
    | SnapshotRejected
    | ReadBarrier
    | Resign
    | Shutdown
)
