"""``Replica`` gives each input to the handler of that duty, and then time to the present role.

Source: Kafka 4.1 ``KafkaRaftClient``; KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core import inputs
from node.core.assembly import Handlers
from node.core.config import LogState, ReplicaConfig, Rng
from node.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    QuorumEpochResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpgradeVersionRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from node.core.own_log import IllegalStateError
from node.core.parts import CoreParts
from node.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from node.core.state import earliest
from node.core.types import KRAFT_VERSIONS, ElectionState
from node.core.view import ReplicaView

__all__ = ["LogState", "Replica", "ReplicaConfig", "Rng"]

ROLE_CHANGES_MAX = 8  # in one step; a lone voter needs four from start to leader
HEALTHY = CoreParts()


class Replica(ReplicaView):
    """A replica is a voter or observer of one quorum; ``node.core`` lists its driver's duties."""

    def __init__(
        self,
        config: ReplicaConfig,
        election: ElectionState,
        log: LogState,
        rng: Rng,
        parts: CoreParts = HEALTHY,
    ) -> None:
        """Load what was on disk; nothing happens before ``start``."""
        super().__init__(parts.state(config, election, log, rng, parts.log))
        handlers = Handlers(parts, self._state)
        self._fencing = handlers.fencing
        self._elections = handlers.elections
        self._votes = handlers.votes
        self._succession = handlers.succession
        self._leadership = handlers.leadership
        self._replication = handlers.replication
        self._replies = handlers.replies
        self._barriers = handlers.barriers
        self._fetches = handlers.fetches
        self._snapshots = handlers.snapshots
        self._description = handlers.description
        self._voter_changes = handlers.voter_changes
        self._voter_requests = handlers.voter_requests
        self._upgrade = handlers.upgrade
        self._fetching = handlers.fetching
        self._downloading = handlers.downloading
        self._own_entry = handlers.own_entry
        self._started = False
        self._dead = False

    # ------------------------------------------------------------------ public

    def start(self, now_ms: int) -> list[fx.Effect]:
        """Take the first role; to be called once, before any ``step``."""
        assert not self._started, "a replica starts once"
        self._started = True
        state = self._state
        state.clock_ms = now_ms
        if state.log.flushed < state.log.end:
            state.out.emit(fx.FlushLog(state.log.end))
        self._elections.take_initial_role()
        return self._finish()

    def step(self, input_: inputs.Input, now_ms: int) -> list[fx.Effect]:
        """Take one input at ``now_ms`` of the caller's clock; run the effects in order.

        Never raises for anything that came over the network. After a ``Fatal`` it does nothing.
        """
        assert self._started, "start comes before step"
        if self._dead:
            return []
        self._state.advance_clock(now_ms)
        try:
            self._dispatch(input_)
        except IllegalStateError as error:
            return self._die(error)
        return self._finish()

    def next_deadline_ms(self) -> int | None:
        """Say when to step ``Tick`` at the latest, on the caller's clock; None = when you like."""
        if self._dead or not self._started:
            return None
        state, deadline_ms = self._state, self._deadline_ms()
        return None if deadline_ms is None else state.clock_ms + max(0, deadline_ms - state.now_ms)

    # ------------------------------------------------------------------ a step

    def _finish(self) -> list[fx.Effect]:
        """Run the timers and the present role, then hand out the effects."""
        self._state.cause = None
        try:
            self._poll()
        except IllegalStateError as error:
            return self._die(error)
        return self._state.out.take()

    def _die(self, error: IllegalStateError) -> list[fx.Effect]:
        self._dead = True
        return [*self._state.out.take(), fx.Fatal(str(error))]

    def _dispatch(self, input_: inputs.Input) -> None:
        match input_:
            case inputs.Tick():
                pass
            case inputs.RequestReceived(token, connection, request):
                self._on_request(token, connection, request)
            case inputs.ResponseReceived(peer, correlation, response):
                self._on_response(peer, correlation, response)
            case inputs.SendFailed():
                self._on_send_failed(input_)
            case inputs.Propose():
                self._replication.on_propose(input_)
            case inputs.LogFlushed(upto):
                self._replication.on_log_flushed(upto)
            case inputs.SnapshotsChanged(snapshots, log_start):
                self._state.log.on_snapshots_changed(snapshots, log_start)
            case inputs.SnapshotInstalled():
                self._downloading.on_snapshot_installed(input_)
            case inputs.SnapshotRejected():
                self._downloading.on_snapshot_rejected(input_)
            case inputs.ReadBarrier():
                self._barriers.on_read_barrier(input_)
            case inputs.Resign(epoch):
                self._succession.on_resign(epoch)
            case inputs.Shutdown():
                self._succession.on_shutdown()

    def _poll(self) -> None:
        """Let the present role act on time, until the role stays the same."""
        state = self._state
        for _ in range(ROLE_CHANGES_MAX):
            role = state.role
            if state.stopping and not isinstance(role, Resigned):
                return  # on its way out: answers, but wants nothing any more
            match role:
                case Follower():
                    self._fetching.poll_follower(role)
                case Leader():
                    self._poll_leader(role)
                case Unattached():
                    self._fetching.poll_unattached(role)
                case Prospective():
                    self._elections.poll_prospective(role)
                case Candidate():
                    self._elections.poll_candidate(role)
                case Resigned():
                    self._succession.poll_resigned(role)
            if state.role is role:
                return

    def _poll_leader(self, role: Leader) -> None:
        self._voter_changes.poll()
        self._leadership.poll(role)
        if self._state.role is role:
            self._replies.poll(role)

    def _deadline_ms(self) -> int | None:
        """Say when the present role has something to do next."""
        role = self._state.role
        if self._state.stopping and not isinstance(role, Resigned):
            return None
        match role:
            case Follower():
                return self._fetching.follower_deadline_ms(role)
            case Leader():
                return earliest(
                    self._leadership.deadline_ms(role),
                    self._voter_changes.deadline_ms,
                    self._replies.deadline_ms,
                )
            case Unattached():
                return self._fetching.unattached_deadline_ms(role)
            case Prospective() | Candidate():
                return self._elections.deadline_ms(role)
            case Resigned():
                return self._succession.deadline_ms(role)

    # ------------------------------------------------------------------ requests

    def _on_request(self, token: int, connection: int, request: Request) -> None:
        self._state.cause = request
        match request:
            case FetchRequest():
                self._fetches.on_fetch_request(token, connection, request)
            case VoteRequest():
                self._votes.on_vote_request(token, request)
            case BeginQuorumEpochRequest():
                self._succession.on_begin_request(token, request)
            case EndQuorumEpochRequest():
                self._succession.on_end_request(token, request)
            case FetchSnapshotRequest():
                self._snapshots.on_fetch_snapshot_request(token, request)
            case AddVoterRequest():
                self._voter_requests.on_add_voter(token, request)
            case RemoveVoterRequest():
                self._voter_requests.on_remove_voter(token, request)
            case UpdateVoterRequest():
                self._voter_requests.on_update_voter(token, request)
            case UpgradeVersionRequest():
                self._upgrade.on_upgrade_version(token, request)
            case ProbeVersionsRequest():
                response = ProbeVersionsResponse(Error.NONE, KRAFT_VERSIONS)
                self._state.out.emit(fx.Reply(token, response))
            case DescribeQuorumRequest():
                self._description.on_describe_request(token)

    # ------------------------------------------------------------------ responses

    def _on_response(self, peer: int, correlation: int, response: Response) -> None:
        state = self._state
        flight = state.connections.close(peer, correlation)
        if flight is None or isinstance(response, DescribeQuorumResponse):
            return  # an answer to an earlier role
        if isinstance(response, ProbeVersionsResponse):
            self._voter_requests.on_probe_response(peer, response)
            return
        state.cause = response
        role = state.role
        self._fetching.on_answer_of(peer)
        if self._fencing.is_settled_by_epoch(peer, response):
            if state.role is role:
                state.back_off(peer)
            return
        match flight.request, response:
            case FetchRequest(), FetchResponse():
                self._fetching.on_fetch_response(peer, flight.request, response)
            case VoteRequest(), VoteResponse():
                self._elections.on_vote_response(peer, flight.request, response)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                self._downloading.on_fetch_snapshot_response(peer, flight.request, response)
            case UpdateVoterRequest(), VoterChangeResponse():
                self._own_entry.on_update_response(peer, response)
            case ((BeginQuorumEpochRequest() | EndQuorumEpochRequest()), QuorumEpochResponse()):
                self._succession.on_quorum_epoch_response(peer, response)
            case _:
                state.back_off(peer)

    def _on_send_failed(self, failed: inputs.SendFailed) -> None:
        flight = self._state.connections.close(failed.peer, failed.correlation)
        if flight is None:
            return
        request = flight.request
        if isinstance(request, ProbeVersionsRequest):
            self._voter_requests.on_probe_failed(failed.peer, failed.reason)
            return
        self._state.back_off(failed.peer)
        self._fetching.on_failure_of(failed.peer)
        if not failed.unsupported_version:
            return
        if isinstance(request, VoteRequest) and request.pre_vote:
            self._elections.on_pre_vote_unsupported()
        elif isinstance(request, UpdateVoterRequest):
            self._own_entry.on_told()
