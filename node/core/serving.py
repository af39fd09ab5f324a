"""Serving as leader: fetches of records and of snapshots, and what the quorum looks like.

Source: KIP-595 "Fetch", KIP-630 "FetchSnapshot"; KIP-1166 (fetches wake on the high watermark);
KIP-836 (DescribeQuorum).
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.barriers import Barriers
from node.core.messages import (
    DescribeQuorumResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RecordRange,
    ReplicaStatus,
    SnapshotRange,
)
from node.core.own_log import directory
from node.core.progress import ReplicaProgress
from node.core.purgatory import ParkedFetch, Purgatory
from node.core.roles import Leader
from node.core.state import known_id
from node.core.types import OffsetAndEpoch


class Serving(Barriers):
    """The answers that only a leader gives."""

    _purgatory: Purgatory

    def _init_leading(self) -> None:
        super()._init_leading()
        self._purgatory = Purgatory()

    # ------------------------------------------------------------------ those who wait

    def _left_leadership(self, leader: Leader) -> None:
        """Nobody may wait for a leader that is none."""
        for parked in self._purgatory.take_all():
            self._emit(fx.Reply(parked.token, self._fetch_error(Error.NOT_LEADER_OR_FOLLOWER)))
        super()._left_leadership(leader)

    def _poll_leader(self, role: Leader) -> None:
        super()._poll_leader(role)
        if self._role is role:
            for parked in self._purgatory.take_expired(self._now_ms):
                self._reply_fetch(role, parked)

    def _wake_for_data(self, role: Leader) -> None:
        for parked in self._purgatory.take_below(self._log_end):
            self._reply_fetch(role, parked)

    def _wake_voters(self, role: Leader) -> None:
        for parked in self._purgatory.take_of(role.progress.voter):
            self._reply_fetch(role, parked)

    def _committed_more(self, role: Leader, high_watermark: int) -> None:
        for parked in self._purgatory.take_behind(high_watermark):
            self._reply_fetch(role, parked)
        super()._committed_more(role, high_watermark)

    # ------------------------------------------------------------------ Fetch, serving

    def _on_fetch_request(self, token: int, connection: int, request: FetchRequest) -> None:
        role = self._role
        error = self._check_fetch(request)
        if error is not Error.NONE or not isinstance(role, Leader):
            self._trace_fetch(request, error.name)
            self._trace_refusal("Fetch", request.replica.id, request.epoch, error)
            self._emit(fx.Reply(token, self._fetch_error(error)))
            return
        snapshot = self._find_snapshot(request)
        if snapshot is not None:
            self._heard_fetch(role, connection, request, "snapshot", snapshot.offset)
            self._reply_now(role, token, connection, request, snapshot=snapshot)
            return
        diverging = self._find_divergence(request)
        if diverging is not None:
            self._heard_fetch(role, connection, request, "diverging", diverging.offset)
            self._reply_now(role, token, connection, request, diverging=diverging)
            return
        self._heard_fetch(role, connection, request, "ok", self._log_end)
        voter = role.progress.voter(request.replica)
        self._take_progress(role, voter, request)
        if self._answer_at_once(role, voter, request):
            self._reply_now(role, token, connection, request)
        else:
            self._park(token, connection, request)

    def _heard_fetch(
        self, role: Leader, connection: int, request: FetchRequest, result: str, end: int
    ) -> None:
        """Tell of a fetch, and then let the reads go on that waited for it."""
        self._trace_fetch(request, result, end)
        voter = role.progress.voter(request.replica)
        if voter is not None:
            self._confirm_barriers(role, voter, connection)

    def _check_fetch(self, request: FetchRequest) -> Error:
        """Everything that must hold before a fetch is looked at, in Kafka's order."""
        if not self._same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        sizes = (request.offset, request.last_fetched_epoch, request.max_wait_ms, request.max_bytes)
        if min(sizes) < 0 or request.last_fetched_epoch > request.epoch:
            return Error.INVALID_REQUEST
        error = self._check_leader_only(request.epoch)
        if error is Error.NONE and request.offset < self._log_start and not self._snapshots:
            return Error.UNKNOWN_SERVER_ERROR  # those records are nowhere to be had
        return error

    def _check_leader_only(self, epoch: int) -> Error:
        """Requests for the leader of ``epoch``: it must be this replica and this epoch."""
        error = self._check_epoch(epoch)
        if error is not Error.NONE:
            return error
        if epoch > self.epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if self.is_leader else Error.NOT_LEADER_OR_FOLLOWER

    def _find_snapshot(self, request: FetchRequest) -> OffsetAndEpoch | None:
        """The snapshot that the fetcher must have first, None when our log can serve it.

        Source: Kafka 4.1 ``KafkaRaftClient.validateFetchOffsetAndEpoch``; a replica without
        anything starts from a snapshot, which is faster than the log.
        """
        if not self._snapshots:
            return None
        earliest, latest = self._snapshots[0].id, self._snapshots[-1].id
        offset, epoch = request.offset, request.last_fetched_epoch
        if offset == 0:
            return latest
        before_log = offset < self._log_start
        other_start = offset == self._log_start and epoch != earliest.epoch
        return latest if before_log or other_start or epoch < earliest.epoch else None

    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        """Where the fetcher must cut its log, None when it is a prefix of ours."""
        if request.offset == self._log_start == 0:
            return None
        found = self._end_offset_for(request.last_fetched_epoch)
        if found.epoch != request.last_fetched_epoch or found.offset < request.offset:
            return found
        return None

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        """Believe a valid fetch: all below its offset is in that replica's log, and on disk."""
        progress = voter or role.progress.observer(request.replica, self._clock_ms)
        if progress is not None:
            progress.fetched(request.offset, self._log_end, self._clock_ms)
        if voter is not None:
            self._heard_from(role, voter.key.id)
            self._advance_high_watermark(role)

    def _answer_at_once(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> bool:
        known = request.high_watermark
        return (
            request.offset < self._log_end
            or request.max_wait_ms == 0
            or (
                known is not None
                and role.high_watermark is not None
                and known < role.high_watermark
            )
            or (voter is not None and self._awaits_barrier(voter))
        )

    def _park(self, token: int, connection: int, request: FetchRequest) -> None:
        self._purgatory.add(ParkedFetch.of(token, connection, request, self._now_ms))

    def _reply_now(
        self,
        role: Leader,
        token: int,
        connection: int,
        request: FetchRequest,
        *,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        parked = ParkedFetch.of(token, connection, request, self._now_ms)
        self._reply_fetch(role, parked, diverging=diverging, snapshot=snapshot)

    def _reply_fetch(
        self,
        role: Leader,
        fetch: ParkedFetch,
        *,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        """Answer with whatever there is from the fetch offset on, committed or not."""
        voter = role.progress.voter(fetch.request.replica)
        if voter is not None:
            voter.replied = (fetch.connection, self._barriers_asked)
        offset = fetch.request.offset
        records = None
        if diverging is None and snapshot is None and offset < self._log_end:
            max_bytes = min(fetch.request.max_bytes, self.config.fetch_max_bytes)
            records = RecordRange(offset, max_bytes)
        self._emit(
            fx.Reply(
                fetch.token,
                FetchResponse(
                    error=Error.NONE,
                    epoch=role.epoch,
                    leader_id=role.leader_id,
                    high_watermark=role.high_watermark,
                    log_start_offset=self._log_start,
                    leader_endpoint=role.leader_endpoint,
                    diverging=diverging,
                    snapshot=snapshot,
                    records=records,
                ),
            )
        )

    def _fetch_error(self, error: Error) -> FetchResponse:
        return FetchResponse(
            error=error,
            epoch=self.epoch,
            leader_id=self.leader_id,
            leader_endpoint=self.leader_endpoint,
        )

    def _trace_fetch(self, request: FetchRequest, result: str, end: int | None = None) -> None:
        self._trace(
            "fetch_rx",
            **{"from": known_id(request.replica.id)},
            from_dir=directory(request.replica),
            off=request.offset,
            last_ep=request.last_fetched_epoch,
            req_ep=request.epoch,
            res=result,
            end=end,
            **self._foreign(request.cluster_id),
        )

    # ------------------------------------------------------------------ FetchSnapshot, serving

    def _on_fetch_snapshot_request(self, token: int, request: FetchSnapshotRequest) -> None:
        role = self._role
        error, size = self._check_fetch_snapshot(request)
        if error is not Error.NONE or not isinstance(role, Leader):
            self._trace_refusal("FetchSnapshot", request.replica.id, request.epoch, error)
            response = FetchSnapshotResponse(
                error, self.epoch, self.leader_id, self.leader_endpoint, request.snapshot
            )
            self._emit(fx.Reply(token, response))
            return
        self._trace_accepted("FetchSnapshot", request.replica, request.epoch, request.cluster_id)
        voter = role.progress.voter(request.replica)
        if voter is not None:
            self._heard_from(role, voter.key.id)
        length = min(request.max_bytes, self.config.fetch_max_bytes, size - request.position)
        self._emit(
            fx.Reply(
                token,
                FetchSnapshotResponse(
                    Error.NONE,
                    role.epoch,
                    role.leader_id,
                    role.leader_endpoint,
                    snapshot=request.snapshot,
                    size=size,
                    position=request.position,
                    chunk=SnapshotRange(request.snapshot, request.position, length),
                ),
            )
        )

    def _check_fetch_snapshot(self, request: FetchSnapshotRequest) -> tuple[Error, int]:
        """What is wrong with the request, in Kafka's order, and the size of its snapshot."""
        if not self._same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID, 0
        if request.max_bytes < 0:
            return Error.INVALID_REQUEST, 0
        error = self._check_leader_only(request.epoch)
        if error is not Error.NONE:
            return error, 0
        size = next((s.size for s in self._snapshots if s.id == request.snapshot), None)
        if size is None:
            return Error.SNAPSHOT_NOT_FOUND, 0
        if not 0 <= request.position < size:
            return Error.POSITION_OUT_OF_RANGE, 0
        return Error.NONE, size

    # ------------------------------------------------------------------ DescribeQuorum

    def _on_describe_request(self, token: int) -> None:
        role = self._role
        if not isinstance(role, Leader):
            error = Error.NOT_LEADER_OR_FOLLOWER
            self._emit(fx.Reply(token, DescribeQuorumResponse(error, self.epoch, self.leader_id)))
            return
        now_ms = self._clock_ms
        local = role.progress.local()
        # Static voters have no directory ids, and what is said of the leader is as of the others.
        keys = {voter.key.id: voter.key for voter in self._voters}
        own_key = keys[local.key.id] if self._is_voter else local.key
        own = ReplicaStatus(own_key, self._log_end, now_ms, now_ms)
        voters = tuple(own if p is local else p.status() for p in role.progress.voters.values())
        observers = tuple(p.status() for p in role.progress.live_observers(now_ms))
        if not self._is_voter:
            observers = (own, *observers)  # removed, and leading until that is committed
        self._emit(
            fx.Reply(
                token,
                DescribeQuorumResponse(
                    Error.NONE, role.epoch, role.leader_id, role.high_watermark, voters, observers
                ),
            )
        )
