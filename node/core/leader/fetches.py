"""``Fetches`` serves a leader's records, and believes what a fetch proves.

Source: KIP-595 "Fetch"; KIP-1166 (a fetch tells the high watermark that it knows).
"""

from __future__ import annotations

from node.core.fencing import Fencing
from node.core.leader.barriers import Barriers
from node.core.leader.fetch_replies import FetchReplies
from node.core.leader.leadership import Leadership
from node.core.leader.replication import Replication
from node.core.messages import Error, FetchRequest
from node.core.own_log import directory
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.core.state import ReplicaState, known_id
from node.core.types import OffsetAndEpoch


class Fetches:
    """This handler judges each Fetch; ``FetchReplies`` answers it."""

    def __init__(
        self,
        state: ReplicaState,
        fencing: Fencing,
        replication: Replication,
        leadership: Leadership,
        barriers: Barriers,
        replies: FetchReplies,
    ) -> None:
        self._state = state
        self._fencing = fencing
        self._replication = replication
        self._leadership = leadership
        self._barriers = barriers
        self._replies = replies

    def on_fetch_request(self, token: int, connection: int, request: FetchRequest) -> None:
        """Answer with a snapshot's id, a divergence or records, or hold the answer back."""
        state, replies = self._state, self._replies
        role = state.role
        error = self._check_fetch(request)
        if error is not Error.NONE or not isinstance(role, Leader):
            self._trace_fetch(request, error.name)
            state.trace_refusal("Fetch", request.replica.id, request.epoch, error)
            replies.refuse(token, error)
            return
        voter = role.progress.voter(request.replica)
        snapshot = self._find_snapshot(request)
        if snapshot is not None:
            self._heard_fetch(role, voter, connection, request, "snapshot", snapshot.offset)
            replies.reply_now(role, token, connection, request, snapshot=snapshot)
            return
        diverging = self._find_divergence(request)
        if diverging is not None:
            self._heard_fetch(role, voter, connection, request, "diverging", diverging.offset)
            replies.reply_now(role, token, connection, request, diverging=diverging)
            return
        self._heard_fetch(role, voter, connection, request, "ok", state.log.end)
        self._take_progress(role, voter, request)
        if self._answer_at_once(role, voter, request):
            replies.reply_now(role, token, connection, request)
        else:
            replies.park(token, connection, request)

    def _heard_fetch(
        self,
        role: Leader,
        voter: ReplicaProgress | None,
        connection: int,
        request: FetchRequest,
        result: str,
        end: int,
    ) -> None:
        """Tell of a fetch, and then let the reads go on that waited for it."""
        self._trace_fetch(request, result, end)
        if voter is not None:
            self._barriers.confirm(role, voter, connection)

    # ------------------------------------------------------------------ judging

    def _check_fetch(self, request: FetchRequest) -> Error:
        """Check all that must hold before a fetch is looked at, in Kafka's order."""
        log = self._state.log
        if not self._fencing.same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        sizes = (request.offset, request.last_fetched_epoch, request.max_wait_ms, request.max_bytes)
        if min(sizes) < 0 or request.last_fetched_epoch > request.epoch:
            return Error.INVALID_REQUEST
        error = self._fencing.check_leader_only(request.epoch)
        if error is Error.NONE and request.offset < log.start and not log.snapshots:
            return Error.UNKNOWN_SERVER_ERROR  # those records are nowhere to be had
        return error

    def _find_snapshot(self, request: FetchRequest) -> OffsetAndEpoch | None:
        """Find the snapshot that the fetcher must have first, None when our log can serve it.

        Source: Kafka 4.1 ``KafkaRaftClient.validateFetchOffsetAndEpoch``; a replica without
        anything starts from a snapshot, which is faster than the log.
        """
        snapshots, log_start = self._state.log.snapshots, self._state.log.start
        if not snapshots:
            return None
        earliest, latest = snapshots[0].id, snapshots[-1].id
        offset, epoch = request.offset, request.last_fetched_epoch
        if offset == 0:
            return latest
        before_log = offset < log_start
        other_start = offset == log_start and epoch != earliest.epoch
        return latest if before_log or other_start or epoch < earliest.epoch else None

    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        """Find where the fetcher must cut its log, None when it is a prefix of ours."""
        log = self._state.log
        if request.offset == log.start == 0:
            return None
        found = log.end_offset_for(request.last_fetched_epoch)
        if found.epoch != request.last_fetched_epoch or found.offset < request.offset:
            return found
        return None

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        """Believe a valid fetch: all below its offset is in that replica's log, and on disk."""
        clock_ms = self._state.clock_ms
        progress = voter or role.progress.observer(request.replica, clock_ms)
        if progress is not None:
            progress.fetched(request.offset, self._state.log.end, clock_ms)
        if voter is not None:
            self._leadership.heard_from(role, voter.key.id)
            self._replication.advance_high_watermark(role)

    def _answer_at_once(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> bool:
        """Say whether there is something to tell, or somebody who waits for the next fetch."""
        known = request.high_watermark
        return (
            request.offset < self._state.log.end
            or request.max_wait_ms == 0
            or (
                known is not None
                and role.high_watermark is not None
                and known < role.high_watermark
            )
            or (voter is not None and self._barriers.needs(voter))
        )

    def _trace_fetch(self, request: FetchRequest, result: str, end: int | None = None) -> None:
        self._state.out.trace(
            "fetch_rx",
            **{"from": known_id(request.replica.id)},
            from_dir=directory(request.replica),
            off=request.offset,
            last_ep=request.last_fetched_epoch,
            req_ep=request.epoch,
            res=result,
            end=end,
            **self._state.foreign(request.cluster_id),
        )
