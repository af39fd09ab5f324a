"""``ReplicaState`` is what all handlers of a replica share: log, role, timers, flights, outbox.

Only ``RoleChanges`` puts another role in it.
"""

from __future__ import annotations

from typing import Any

from node.core.config import LogState, ReplicaConfig, Rng
from node.core.connections import Connections
from node.core.effects import Send
from node.core.events import Events
from node.core.messages import Error, Request, Response
from node.core.outbox import Outbox
from node.core.own_log import OwnLog, directory
from node.core.roles import Leader, Role, Unattached
from node.core.types import ElectionState, Endpoint, ReplicaKey, Voter

EPOCH_MAX = 2**31 - 2  # the wire has 31 bits, and an election must still be able to follow


class ReplicaState:
    """A replica's handlers read and write this state; a step is over before the next begins.

    ``now_ms`` never goes backward, ``clock_ms`` is what the caller last said. ``cause`` is the
    request that is being answered, or the response that is being taken in.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        election: ElectionState,
        log: LogState,
        rng: Rng,
        log_type: type[OwnLog] = OwnLog,
    ) -> None:
        self.config = config
        self.rng = rng
        self.out = Outbox(election.epoch)
        self.events = Events()
        self.log = log_type(config, log, self.out, self.events)
        self.election = election  # what is on disk
        self.role: Role = Unattached(election.epoch, election.leader_id, election.voted, None)
        self.connections = Connections()
        self.now_ms = 0
        self.clock_ms = 0
        self.stopping = False
        self.cause: Request | Response | None = None

    # ------------------------------------------------------------------ read-only view

    @property
    def epoch(self) -> int:
        """Give the highest epoch seen."""
        return self.role.epoch

    @property
    def leader_id(self) -> int | None:
        """Give the leader of this epoch, as far as known; a resigned leader still names itself."""
        return self.role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Give the endpoint of that leader, None when it is not known."""
        return self.role.leader_endpoint

    @property
    def high_watermark(self) -> int | None:
        """Give the end of the committed records; a leader knows none before one of its epoch."""
        role = self.role
        return role.high_watermark if isinstance(role, Leader) else self.log.committed

    @property
    def advertised(self) -> Endpoint | None:
        """Give the endpoint by which others reach this replica: its own word goes first."""
        return self.config.endpoint or self.log.voters.endpoint(self.config.key.id)

    @property
    def is_lone_voter(self) -> bool:
        """Say whether this replica is the only voter."""
        return self.log.is_voter and len(self.log.voters) == 1

    def other_voter_ids(self) -> set[int]:
        """Give the ids of all voters but this replica."""
        return set(self.log.voters.ids) - {self.config.key.id}

    # ------------------------------------------------------------------ clock and chance

    def advance_clock(self, clock_ms: int) -> None:
        """Take over elapsed time; a clock set back neither stalls nor fires a timer."""
        if clock_ms > self.clock_ms:
            self.now_ms += clock_ms - self.clock_ms
        self.clock_ms = clock_ms

    def random_election_deadline(self) -> int:
        """Draw T + uniform[0, T) from now, anew each time so that candidates spread out."""
        timeout_ms = self.config.election_timeout_ms
        return self.now_ms + timeout_ms + int(self.rng.random() * timeout_ms)

    # ------------------------------------------------------------------ requests of its own

    def send(self, peer: int, endpoint: Endpoint, request: Request) -> None:
        """Send to an idle peer."""
        flight = self.connections.open(peer, request)
        self.out.emit(
            Send(peer, endpoint, flight.correlation, request, self.config.request_timeout_ms)
        )

    def back_off(self, peer: int) -> None:
        """Make a pause before the next request to ``peer``."""
        self.connections.back_off(peer, self.now_ms + self.config.retry_backoff_ms)

    def idle_voters(self, ids: set[int]) -> list[Voter]:
        """Give those of the voters ``ids`` to whom a request may leave now."""
        if not ids:
            return []
        is_ready, now_ms = self.connections.is_ready, self.now_ms
        return [
            voter
            for voter in self.log.voters
            if voter.key.id in ids and is_ready(voter.key.id, now_ms)
        ]

    def next_send_ms(self, peers: set[int]) -> int | None:
        """Say when a request may leave for one of ``peers``; None when that waits for answers."""
        if not peers:
            return None
        connections = self.connections
        idle = [p for p in peers if not connections.is_busy(p)]
        return min((connections.ready_at_ms(p) for p in idle), default=None)

    # ------------------------------------------------------------------ the trace

    def trace_refusal(self, api: str, peer: int, epoch: int, error: Error, **asked: Any) -> None:
        """Trace that a quorum request is refused; ``asked`` is what it asked for beside that."""
        if error is Error.INCONSISTENT_CLUSTER_ID:
            asked["foreign"] = bool(self.foreign(getattr(self.cause, "cluster_id", None)))
        peer_id = known_id(peer)
        self.out.trace("rpc_err", api=api, peer=peer_id, req_ep=epoch, code=int(error), **asked)

    def trace_accepted(
        self,
        api: str,
        peer: ReplicaKey,
        epoch: int | None,
        cluster_id: str | None,
        **more: Any,
    ) -> None:
        """Trace that a quorum request is acted upon; what it claimed is told as it came."""
        self.out.trace(
            "rpc_ok",
            api=api,
            peer=known_id(peer.id),
            peer_dir=directory(peer),
            req_ep=epoch,
            **more,
            **self.foreign(cluster_id),
        )

    def foreign(self, cluster_id: str | None) -> dict[str, bool]:
        """Tell the trace that a request names another cluster; it costs nothing if it does not."""
        known = cluster_id is None or cluster_id == self.config.cluster_id
        return {} if known else {"foreign": True}


def addressed(voter: ReplicaKey | None) -> dict[str, Any]:
    """Tell the trace for whom a request says that it is; it costs nothing if it does not."""
    return {} if voter is None else {"voter": (voter.id, directory(voter))}


def known_id(node_id: int) -> int | None:
    """Give a node id for the trace: None for an anonymous reader or an unknown server."""
    return node_id if node_id >= 0 else None


def earliest(*times_ms: int | None) -> int | None:
    """Give the first of those times that are known."""
    first_ms = None
    for time_ms in times_ms:
        if time_ms is not None and (first_ms is None or time_ms < first_ms):
            first_ms = time_ms
    return first_ms
