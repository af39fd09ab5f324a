"""One KRaft replica: inputs in, effects out.

Built in layers, each overridable method by method (``node.core`` lists them), and here the
dispatch of inputs, the rules common to all responses, and the timers.

Source: Kafka 4.1 ``KafkaRaftClient``; KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core import inputs
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
from node.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from node.core.state import EPOCH_MAX
from node.core.types import KRAFT_VERSIONS, ElectionState
from node.core.updating import Updating

__all__ = ["LogState", "Replica", "ReplicaConfig", "Rng"]

# The answers that tell epoch and leader.
QuorumResponse = (
    VoteResponse | QuorumEpochResponse | FetchResponse | FetchSnapshotResponse | VoterChangeResponse
)
ROLE_CHANGES_MAX = 8  # in one step; a lone voter needs four from start to leader


class Replica(Updating):
    """A voter or observer of one quorum; see ``node.core`` for the duties of its driver."""

    def __init__(
        self, config: ReplicaConfig, election: ElectionState, log: LogState, rng: Rng
    ) -> None:
        """Load what was on disk; nothing happens before ``start``."""
        super().__init__(config, election, log, rng)
        self._init_leading()
        self._started = False
        self._dead = False

    # ------------------------------------------------------------------ public

    def start(self, now_ms: int) -> list[fx.Effect]:
        """Take the first role; to be called once, before any ``step``."""
        assert not self._started, "a replica starts once"
        self._started = True
        self._clock_ms = now_ms
        if self._flushed < self._log_end:
            self._emit(fx.FlushLog(self._log_end))
        self._initial_role()
        return self._finish()

    def step(self, input_: inputs.Input, now_ms: int) -> list[fx.Effect]:
        """Take one input at ``now_ms`` of the caller's clock; run the effects in order.

        Never raises for anything that came over the network. After a ``Fatal`` it does nothing.
        """
        assert self._started, "start comes before step"
        if self._dead:
            return []
        self._advance_clock(now_ms)
        try:
            self._dispatch(input_)
        except IllegalStateError as error:
            return self._die(error)
        return self._finish()

    def next_deadline_ms(self) -> int | None:
        """When to step ``Tick`` at the latest, on the caller's clock; None = when you like."""
        if self._dead or not self._started:
            return None
        deadline_ms = self._deadline_ms()
        return None if deadline_ms is None else self._clock_ms + max(0, deadline_ms - self._now_ms)

    # ------------------------------------------------------------------ a step

    def _finish(self) -> list[fx.Effect]:
        """Let timers and the present role act, and hand out what is to be done."""
        self._cause = None
        try:
            self._poll()
        except IllegalStateError as error:
            return self._die(error)
        out, self._out = self._out, []
        return out

    def _die(self, error: IllegalStateError) -> list[fx.Effect]:
        self._dead = True
        out, self._out = self._out, []
        return [*out, fx.Fatal(str(error))]

    def _dispatch(self, input_: inputs.Input) -> None:
        match input_:
            case inputs.Tick():
                pass
            case inputs.RequestReceived(token, connection, request):
                self._on_request(token, connection, request)
            case inputs.ResponseReceived(peer, correlation, response):
                self._on_response(peer, correlation, response)
            case inputs.SendFailed(peer, correlation):
                self._on_send_failed(input_)
            case inputs.Propose():
                self._on_propose(input_)
            case inputs.LogFlushed(upto):
                self._on_log_flushed(upto)
            case inputs.SnapshotsChanged(snapshots, log_start):
                self._on_snapshots_changed(snapshots, log_start)
            case inputs.SnapshotInstalled():
                self._on_snapshot_installed(input_)
            case inputs.SnapshotRejected():
                self._on_snapshot_rejected(input_)
            case inputs.ReadBarrier():
                self._on_read_barrier(input_)
            case inputs.Resign(epoch):
                self._on_resign(epoch)
            case inputs.Shutdown():
                self._on_shutdown()

    def _on_resign(self, epoch: int) -> None:
        if isinstance(self._role, Leader) and self._role.epoch == epoch:
            self._become_resigned(self._role, "the controller resigned")

    def _on_shutdown(self) -> None:
        self._stopping = True
        if isinstance(self._role, Leader):
            self._become_resigned(self._role, "shutdown")

    def _poll(self) -> None:
        for _ in range(ROLE_CHANGES_MAX):
            role = self._role
            if self._stopping and not isinstance(role, Resigned):
                return  # on its way out: answers, but wants nothing any more
            match role:
                case Follower():
                    self._poll_follower(role)
                case Leader():
                    self._poll_leader(role)
                case Unattached():
                    self._poll_unattached(role)
                case Prospective():
                    self._poll_prospective(role)
                case Candidate():
                    self._poll_candidate(role)
                case Resigned():
                    self._poll_resigned(role)
            if self._role is role:
                return

    def _deadline_ms(self) -> int | None:
        """When the present role has something to do next."""
        role = self._role
        if self._stopping and not isinstance(role, Resigned):
            return None
        match role:
            case Follower():
                expired = role.deadline_ms <= self._now_ms
                return _earliest(None if expired else role.deadline_ms, self._next_fetch_ms())
            case Leader():
                return _earliest(
                    role.check_quorum_deadline_ms,
                    role.begin_deadline_ms,
                    None if self._change is None else self._change.deadline_ms,
                    self._next_send_ms(role.begin_pending),
                    self._purgatory.deadline_ms,
                )
            case Unattached():
                return _earliest(role.deadline_ms, self._next_fetch_ms())
            case Prospective() | Candidate():
                missing = {i for i in self._other_voter_ids() if not role.tally.has_answer_of(i)}
                waiting = set() if role.tally.lost else missing
                return _earliest(role.deadline_ms, self._next_send_ms(waiting))
            case Resigned():
                return _earliest(role.deadline_ms, self._next_send_ms(role.unacked))

    def _next_send_ms(self, peers: set[int]) -> int | None:
        if not peers:
            return None
        idle = [p for p in peers if not self._connections.is_busy(p)]
        return min((self._connections.ready_at_ms(p) for p in idle), default=None)

    # ------------------------------------------------------------------ requests

    def _on_request(self, token: int, connection: int, request: Request) -> None:
        self._cause = request
        match request:
            case VoteRequest():
                self._on_vote_request(token, request)
            case BeginQuorumEpochRequest():
                self._on_begin_request(token, request)
            case EndQuorumEpochRequest():
                self._on_end_request(token, request)
            case FetchRequest():
                self._on_fetch_request(token, connection, request)
            case FetchSnapshotRequest():
                self._on_fetch_snapshot_request(token, request)
            case AddVoterRequest():
                self._on_add_voter(token, request)
            case RemoveVoterRequest():
                self._on_remove_voter(token, request)
            case UpdateVoterRequest():
                self._on_update_voter(token, request)
            case UpgradeVersionRequest():
                self._on_upgrade_version(token, request)
            case ProbeVersionsRequest():
                response = ProbeVersionsResponse(Error.NONE, KRAFT_VERSIONS)
                self._emit(fx.Reply(token, response))
            case DescribeQuorumRequest():
                self._on_describe_request(token)

    # ------------------------------------------------------------------ responses

    def _on_response(self, peer: int, correlation: int, response: Response) -> None:
        flight = self._connections.close(peer, correlation)
        if flight is None or isinstance(response, DescribeQuorumResponse):
            return  # an answer to an earlier role
        if isinstance(response, ProbeVersionsResponse):
            self._on_probe_response(peer, response)
            return
        self._cause = response
        role = self._role
        if isinstance(role, Follower) and peer == role.leader_id:
            role.failures = 0
        if self._is_settled_by_epoch(peer, response):
            if self._role is role:
                self._back_off(peer)
            return
        match flight.request, response:
            case VoteRequest(), VoteResponse():
                self._on_vote_response(peer, flight.request, response)
            case FetchRequest(), FetchResponse():
                self._on_fetch_response(peer, flight.request, response)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                self._on_fetch_snapshot_response(peer, flight.request, response)
            case UpdateVoterRequest(), VoterChangeResponse():
                self._on_update_response(peer, response)
            case ((BeginQuorumEpochRequest() | EndQuorumEpochRequest()), QuorumEpochResponse()):
                self._on_quorum_epoch_response(peer, response)
            case _:
                self._back_off(peer)

    def _is_settled_by_epoch(self, peer: int, response: QuorumResponse) -> bool:
        """What epoch and leader of any response mean; True when nothing else in it counts.

        The order is Kafka's: stale first, then newer, then a leader that we did not know.
        """
        error, epoch = response.error, response.epoch
        if error is Error.UNSUPPORTED_VERSION or not 0 <= epoch <= EPOCH_MAX:
            return error is not Error.UNSUPPORTED_VERSION
        if epoch < self.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
            return True
        why = f"response of {peer}"
        role = self._role
        agrees = self._learn(epoch, response.leader_id, response.leader_endpoint, why)
        if not agrees:
            self._trace_refusal(type(response).__name__, peer, epoch, Error.INVALID_REQUEST)
            return True
        if error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER):
            return True
        if self._role is not role:
            # A new follower may use what came with the news, if it is about this very epoch.
            return epoch != role.epoch or error is not Error.NONE
        return False

    def _on_send_failed(self, failed: inputs.SendFailed) -> None:
        flight = self._connections.close(failed.peer, failed.correlation)
        if flight is None:
            return
        if isinstance(flight.request, ProbeVersionsRequest):
            self._on_probe_failed(failed.peer, failed.reason)
            return
        self._back_off(failed.peer)
        if isinstance(self._role, Follower) and failed.peer == self._role.leader_id:
            self._role.failures += 1
        request = flight.request
        if not failed.unsupported_version:
            return
        if isinstance(request, VoteRequest) and request.pre_vote:
            self._pre_vote_unsupported()
        elif isinstance(request, UpdateVoterRequest):
            self._has_told()


def _earliest(*times_ms: int | None) -> int | None:
    """The first of those that are known."""
    first_ms = None
    for time_ms in times_ms:
        if time_ms is not None and (first_ms is None or time_ms < first_ms):
            first_ms = time_ms
    return first_ms
