"""Leading: appending, serving fetches, committing, staying leader only with a quorum.

Source: KIP-595 "Fetch", "Log replication", "Check quorum" (KAFKA-15489); KIP-1166 (fetches wake
on the high watermark). The read barrier is not Kafka's: Raft thesis 6.4, with fetches for
heartbeats.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.elections import Elections
from node.core.inputs import Propose, ReadBarrier
from node.core.messages import (
    BeginQuorumEpochRequest,
    ControlRecords,
    DescribeQuorumResponse,
    Error,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    RecordRange,
    Records,
    ReplicaStatus,
)
from node.core.progress import LeaderProgress, ReplicaProgress
from node.core.purgatory import ParkedFetch, Purgatory
from node.core.roles import Leader
from node.core.state import known_id
from node.core.types import OffsetAndEpoch


class Leading(Elections):
    """What a replica does as leader of its epoch."""

    _purgatory: Purgatory
    _barriers: dict[int, int]  # token -> number, oldest first
    _barriers_asked: int  # how many barriers there have been; the number of the last one

    def _init_leading(self) -> None:
        self._purgatory = Purgatory()
        self._barriers = {}
        self._barriers_asked = 0

    # ------------------------------------------------------------------ gaining and losing it

    def _become_leader(self, grants: tuple[int, ...]) -> None:
        """Lead: on disk first, then open the epoch with a LeaderChange batch at its start."""
        config, start = self.config, self._log_end
        role = Leader(
            epoch=self.epoch,
            voted=config.key,
            leader_id=config.key.id,
            leader_endpoint=config.advertised,
            epoch_start=start,
            progress=LeaderProgress(config.voters, config.key.id),
            check_quorum_deadline_ms=self._check_quorum_deadline(),
            begin_deadline_ms=self._now_ms,
            begin_pending=set(),
        )
        role.progress.local().end_offset = self._local_quorum_end()
        self._become(role, "won the election")
        self._trace("elected", grants=list(grants), voters=list(config.voters.ids), es=start)
        change = LeaderChange(config.key.id, config.voters.ids, grants)
        self._append_as_leader(ControlRecords((change,)), 1)
        self._emit(
            fx.LeadershipAcquired(role.epoch, start),
            fx.FlushLog(self._log_end),
        )

    def _left_leadership(self, leader: Leader) -> None:
        """Nobody may wait for a leader that is none: refuse parked fetches and barriers."""
        for parked in self._purgatory.take_all():
            self._emit(fx.Reply(parked.token, self._fetch_error(Error.NOT_LEADER_OR_FOLLOWER)))
        for token in self._barriers:
            self._emit(fx.BarrierFailed(token, self._leader_hint()))
        self._barriers.clear()
        self._emit(fx.LeadershipLost(leader.epoch))

    def _leader_hint(self) -> int | None:
        """Who else may lead; a resigned leader does not send anybody to itself."""
        return None if self.leader_id == self.config.key.id else self.leader_id

    # ------------------------------------------------------------------ what time brings

    def _poll_leader(self, role: Leader) -> None:
        if self._quorum_is_silent(role):
            self._become_resigned(role, "check quorum: no majority is fetching")
            return
        for parked in self._purgatory.take_expired(self._now_ms):
            self._reply_fetch(role, parked)
        if role.begin_deadline_ms <= self._now_ms:
            role.begin_deadline_ms = self._now_ms + self._begin_period_ms()
            role.begin_pending = self._other_voter_ids()
        for voter in self._idle_voters(role.begin_pending):
            assert role.leader_endpoint is not None, "a voter has an endpoint"
            self._send(
                voter.key.id,
                voter.endpoint,
                BeginQuorumEpochRequest(
                    leader_id=role.leader_id,
                    epoch=role.epoch,
                    leader_endpoint=role.leader_endpoint,
                    voter=voter.key,
                    cluster_id=self.config.cluster_id,
                ),
            )

    def _begin_period_ms(self) -> int:
        return max(1, self.config.fetch_timeout_ms // 2)

    def _check_quorum_deadline(self) -> int | None:
        """When to resign without a majority fetching; never for a lone voter (KAFKA-16144)."""
        if self._is_lone_voter:
            return None
        return self._now_ms + self.config.fetch_timeout_ms * 3 // 2

    def _quorum_is_silent(self, role: Leader) -> bool:
        deadline_ms = role.check_quorum_deadline_ms
        return deadline_ms is not None and deadline_ms <= self._now_ms

    def _heard_from(self, role: Leader, voter_id: int) -> None:
        """Credit a voter's fetch; a majority of them (with ourselves) restarts the timer."""
        role.heard_from.add(voter_id)
        if len(role.heard_from) >= self.config.voters.majority - 1:
            role.heard_from.clear()
            role.check_quorum_deadline_ms = self._check_quorum_deadline()

    # ------------------------------------------------------------------ appending

    def _append_as_leader(self, content: ControlRecords | Records, count: int) -> int:
        """Append one batch at the log end; gives its last offset."""
        base = self._log_end
        self._emit(fx.AppendAsLeader(base, self.epoch, content))
        self._epochs.assign(self.epoch, base)
        self._log_end = base + count
        return self._log_end - 1

    def _on_propose(self, proposal: Propose) -> None:
        role = self._role
        if not isinstance(role, Leader) or proposal.epoch != role.epoch:
            self._emit(fx.ProposalRejected(proposal.token, self.leader_id))
            return
        base = self._log_end
        for records in proposal.entries:
            assert records.count > 0, "a batch without records has no offsets"
            self._append_as_leader(records, records.count)
        self._emit(fx.ProposalAccepted(proposal.token, base, self._log_end - 1))
        if self._log_end > base:
            # Followers copy while we flush; we count ourselves only after the flush.
            self._wake_for_data(role)
            self._emit(fx.FlushLog(self._log_end))

    def _on_log_flushed(self, upto: int) -> None:
        flushed = min(upto, self._log_end)
        if flushed > self._flushed:
            self._flushed = flushed
            self._trace("flush", upto=flushed)
        if isinstance(self._role, Leader):
            self._role.progress.local().end_offset = self._local_quorum_end()
            self._advance_high_watermark(self._role)

    # ------------------------------------------------------------------ committing

    def _local_quorum_end(self) -> int:
        """Up to where the leader counts itself: what it has flushed, not what it has written."""
        return self._flushed

    def _quorum_end_offset(self, role: Leader) -> int:
        """The highest end offset that a majority of the voters has reached."""
        ends = role.progress.end_offsets_descending()
        return ends[len(ends) // 2]

    def _may_commit(self, role: Leader, end: int) -> bool:
        """Only records of the own epoch commit by counting; older ones follow (Raft 5.4.2).

        ``>`` and not ``>=``: the first record of the epoch must itself be covered (KAFKA-12619).
        """
        return end > role.epoch_start

    def _advance_high_watermark(self, role: Leader) -> None:
        end = self._quorum_end_offset(role)
        if not self._may_commit(role, end):
            return
        if role.high_watermark is not None and end <= role.high_watermark:
            return
        role.high_watermark = end
        self._commit(
            end,
            **{"as": "leader"},
            acks={str(i): p.end_offset for i, p in role.progress.voters.items()},
            voters=list(self.config.voters.ids),
        )
        for parked in self._purgatory.take_behind(end):
            self._reply_fetch(role, parked)
        self._settle_barriers(role)

    # ------------------------------------------------------------------ Fetch, serving

    def _on_fetch_request(self, token: int, connection: int, request: FetchRequest) -> None:
        role = self._role
        error = self._check_fetch(request)
        if error is not Error.NONE or not isinstance(role, Leader):
            self._trace_fetch(request, error.name)
            self._trace_refusal("Fetch", request.replica.id, request.epoch, error)
            self._emit(fx.Reply(token, self._fetch_error(error)))
            return
        voter = role.progress.voter(request.replica)
        if voter is not None:
            self._confirm_barriers(role, voter, connection)
        diverging = self._find_divergence(request)
        if diverging is not None:
            self._trace_fetch(request, "diverging", diverging.offset)
            self._reply_now(role, token, connection, request, diverging)
            return
        self._trace_fetch(request, "ok", self._log_end)
        self._take_progress(role, voter, request)
        if self._answer_at_once(role, voter, request):
            self._reply_now(role, token, connection, request)
        else:
            self._park(token, connection, request)

    def _check_fetch(self, request: FetchRequest) -> Error:
        """Everything that must hold before a fetch is looked at, in Kafka's order."""
        if not self._same_cluster(request.cluster_id):
            return Error.INCONSISTENT_CLUSTER_ID
        sizes = (request.offset, request.last_fetched_epoch, request.max_wait_ms, request.max_bytes)
        if min(sizes) < 0 or request.last_fetched_epoch > request.epoch:
            return Error.INVALID_REQUEST
        error = self._check_leader_only(request.epoch)
        if error is Error.NONE and request.offset < self._log_start:
            return Error.UNKNOWN_SERVER_ERROR  # would need a snapshot, which we never take
        return error

    def _check_leader_only(self, epoch: int) -> Error:
        """Requests for the leader of ``epoch``: it must be this replica and this epoch."""
        error = self._check_epoch(epoch)
        if error is not Error.NONE:
            return error
        if epoch > self.epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if self.is_leader else Error.NOT_LEADER_OR_FOLLOWER

    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        """Where the fetcher must cut its log, None when it is a prefix of ours."""
        if request.offset == self._log_start == 0:
            return None
        found = self._epochs.end_offset_for(request.last_fetched_epoch, self._log_end)
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

    def _wake_for_data(self, role: Leader) -> None:
        for parked in self._purgatory.take_below(self._log_end):
            self._reply_fetch(role, parked)

    def _reply_now(
        self,
        role: Leader,
        token: int,
        connection: int,
        request: FetchRequest,
        diverging: OffsetAndEpoch | None = None,
    ) -> None:
        parked = ParkedFetch.of(token, connection, request, self._now_ms)
        self._reply_fetch(role, parked, diverging)

    def _reply_fetch(
        self, role: Leader, fetch: ParkedFetch, diverging: OffsetAndEpoch | None = None
    ) -> None:
        """Answer with whatever there is from the fetch offset on, committed or not."""
        voter = role.progress.voter(fetch.request.replica)
        if voter is not None:
            voter.replied = (fetch.connection, self._barriers_asked)
        offset = fetch.request.offset
        records = None
        if diverging is None and offset < self._log_end:
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
        directory_id = request.replica.directory_id
        self._trace(
            "fetch_rx",
            **{"from": known_id(request.replica.id)},
            from_dir=None if directory_id is None else directory_id.hex,
            off=request.offset,
            last_ep=request.last_fetched_epoch,
            res=result,
            end=end,
        )

    # ------------------------------------------------------------------ read barrier

    def _on_read_barrier(self, barrier: ReadBarrier) -> None:
        """Start (or join) a round of fetches that are sure to have begun after now.

        A fetch proves that its sender had not left our epoch when it sent it. It was sent after
        the reply to the fetch before it on the same connection; so if *that reply* went out after
        the barrier, so did the fetch. A majority of such proofs means that no newer leader can
        have been elected, let alone have committed anything, before the barrier.
        """
        role = self._role
        if not isinstance(role, Leader):
            self._emit(fx.BarrierFailed(barrier.token, self._leader_hint()))
            return
        self._barriers_asked += 1
        self._barriers[barrier.token] = self._barriers_asked
        for parked in self._purgatory.take_of(role.progress.voter):
            self._reply_fetch(role, parked)
        self._settle_barriers(role)

    def _confirm_barriers(self, role: Leader, voter: ReplicaProgress, connection: int) -> None:
        if voter.replied is not None and voter.replied[0] == connection:
            voter.confirmed_barrier = max(voter.confirmed_barrier, voter.replied[1])
            self._settle_barriers(role)

    def _awaits_barrier(self, voter: ReplicaProgress) -> bool:
        """Whether a pending barrier still needs another fetch of that voter, and soon."""
        last = next(reversed(self._barriers.values()), 0)
        return voter.confirmed_barrier < last

    def _confirmed_barrier(self, role: Leader) -> int:
        """The newest barrier that a majority, we among it, has confirmed."""
        confirmed = sorted(
            (
                self._barriers_asked if i == role.leader_id else p.confirmed_barrier
                for i, p in role.progress.voters.items()
            ),
            reverse=True,
        )
        return confirmed[self.config.voters.majority - 1]

    def _settle_barriers(self, role: Leader) -> None:
        """Let reads go on whose round is complete, once this epoch has committed something."""
        if role.high_watermark is None or not self._barriers:
            return
        confirmed = self._confirmed_barrier(role)
        for token, number in list(self._barriers.items()):
            if number > confirmed:
                break
            del self._barriers[token]
            self._emit(fx.BarrierConfirmed(token, role.high_watermark))

    # ------------------------------------------------------------------ DescribeQuorum

    def _on_describe_request(self, token: int) -> None:
        role = self._role
        if not isinstance(role, Leader):
            error = Error.NOT_LEADER_OR_FOLLOWER
            self._emit(fx.Reply(token, DescribeQuorumResponse(error, self.epoch, self.leader_id)))
            return
        now_ms = self._clock_ms
        voters = tuple(
            ReplicaStatus(p.key, self._log_end, now_ms, now_ms)
            if i == role.leader_id
            else p.status()
            for i, p in role.progress.voters.items()
        )
        observers = tuple(p.status() for p in role.progress.live_observers(now_ms))
        self._emit(
            fx.Reply(
                token,
                DescribeQuorumResponse(
                    Error.NONE, role.epoch, role.leader_id, role.high_watermark, voters, observers
                ),
            )
        )
