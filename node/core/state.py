"""The part of a replica that every role shares: epoch and vote, log ends, clock, effects.

``ReplicaState`` holds them and is the only place that changes the role. A change is checked
against ``TRANSITIONS``, written to disk first, and then made.

Source: KIP-595 "quorum-state"; Kafka 4.1 ``QuorumState``.
"""

from __future__ import annotations

from typing import Any

from node.core import effects as fx
from node.core.config import LogState, ReplicaConfig, Rng
from node.core.connections import Connections
from node.core.messages import Error, Request, Response
from node.core.own_log import IllegalStateError, OwnLog, directory
from node.core.roles import (
    TRANSITIONS,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    RoleName,
    Unattached,
    VoteTally,
)
from node.core.types import (
    ElectionState,
    Endpoint,
    ReplicaKey,
)

EPOCH_MAX = 2**31 - 2  # the wire has 31 bits, and an election must still be able to follow
UPDATE_VOTER_FETCH_TIMEOUTS = 3  # Kafka 4.1 FollowerState: a few rounds of fetching first
_MAY_BE_OBSERVER = (RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED)


class ReplicaState(OwnLog):
    """State of one replica; the protocol is in the classes built on it."""

    def __init__(
        self, config: ReplicaConfig, election: ElectionState, log: LogState, rng: Rng
    ) -> None:
        super().__init__(config, log)
        self._rng = rng
        self._election = election
        self._role: Role = Unattached(election.epoch, election.leader_id, election.voted, None)
        self._connections = Connections()
        self._now_ms = 0
        self._clock_ms = 0  # what the caller last said
        self._stopping = False
        self._cause: Request | Response | None = None  # what is being answered, or taken in

    # ------------------------------------------------------------------ read-only view

    @property
    def role(self) -> RoleName:
        """The present role."""
        return self._role.name

    @property
    def epoch(self) -> int:
        """The highest epoch seen."""
        return self._role.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads this epoch, as far as known; a resigned leader still names itself."""
        return self._role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where that leader is, None when not known."""
        return self._role.leader_endpoint

    @property
    def high_watermark(self) -> int | None:
        """End of the committed records; a leader knows none before the first of its own epoch."""
        role = self._role
        return role.high_watermark if isinstance(role, Leader) else self._committed

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads (a resigned one does not)."""
        return isinstance(self._role, Leader)

    @property
    def epoch_start(self) -> int | None:
        """Offset of the leader's first batch, None when this replica does not lead."""
        return self._role.epoch_start if isinstance(self._role, Leader) else None

    @property
    def election_state(self) -> ElectionState:
        """What is on disk: epoch, leader and vote."""
        return self._election

    @property
    def last_vote(self) -> ReplicaKey | None:
        """Whom this replica voted for in the present epoch."""
        return self._election.voted

    @property
    def advertised(self) -> Endpoint | None:
        """Where others reach this replica: its own word first, then the voter set's."""
        return self.config.endpoint or self._voters.endpoint(self.config.key.id)

    # ------------------------------------------------------------------ clock and chance

    def _advance_clock(self, clock_ms: int) -> None:
        """Take over elapsed time; a clock set back neither stalls nor fires a timer."""
        self._now_ms += max(0, clock_ms - self._clock_ms)
        self._clock_ms = clock_ms

    def _random_election_deadline(self) -> int:
        """T + uniform[0, T) from now, drawn anew each time so that candidates spread out."""
        timeout_ms = self.config.election_timeout_ms
        return self._now_ms + timeout_ms + int(self._rng.random() * timeout_ms)

    # ------------------------------------------------------------------ effects

    def _send(self, peer: int, endpoint: Endpoint, request: Request) -> None:
        """Send to an idle peer."""
        flight = self._connections.open(peer, request)
        self._emit(
            fx.Send(peer, endpoint, flight.correlation, request, self.config.request_timeout_ms)
        )

    def _back_off(self, peer: int) -> None:
        self._connections.back_off(peer, self._now_ms + self.config.retry_backoff_ms)

    def _trace_refusal(self, api: str, peer: int, epoch: int, error: Error) -> None:
        self._trace("rpc_err", api=api, peer=known_id(peer), req_ep=epoch, code=int(error))

    def _trace_accepted(
        self,
        api: str,
        peer: ReplicaKey,
        epoch: int | None,
        cluster_id: str | None,
        **more: Any,
    ) -> None:
        """A quorum request is acted upon; what it claimed is told as it came."""
        self._trace(
            "rpc_ok",
            api=api,
            peer=known_id(peer.id),
            peer_dir=directory(peer),
            req_ep=epoch,
            **more,
            **self._foreign(cluster_id),
        )

    def _foreign(self, cluster_id: str | None) -> dict[str, bool]:
        """That a request names another cluster, for the trace: it costs nothing if it does not."""
        known = cluster_id is None or cluster_id == self.config.cluster_id
        return {} if known else {"foreign": True}

    # ------------------------------------------------------------------ changing the role

    def _persist(self, state: ElectionState) -> None:
        """Put epoch, leader and vote on disk, unless they are there already."""
        if state == self._election:
            return
        self._emit(fx.PersistElectionState(state))
        self._election = state
        self._out.append(fx.Trace("qs", state.epoch, _election_fields(state)))

    def _become(self, role: Role, why: str) -> None:
        """Leave the present role for ``role``: check, persist, change, then tell."""
        self._check_role(role, why)
        old = self._role
        if not isinstance(role, Prospective | Resigned):
            self._persist(role.durable)
        self._enter(role, old.name, why)
        if isinstance(old, Leader):
            self._left_leadership(old)
        elif isinstance(old, Follower) and old.download is not None:
            self._emit(fx.DiscardSnapshot(old.download.id))

    def _check_role(self, role: Role, why: str) -> None:
        """Raise IllegalStateError when ``role`` must not follow the present one."""
        old = self._role
        rule = TRANSITIONS.get((old.name, role.name))
        if rule is None or not rule.allows(old.epoch, role.epoch):
            raise IllegalStateError(
                f"{old.name} of epoch {old.epoch} must not become {role.name} of epoch "
                f"{role.epoch} ({why})"
            )
        if not self.is_voter and role.name not in _MAY_BE_OBSERVER:
            raise IllegalStateError(f"observer {self.config.key} must not become {role.name}")

    def _enter(self, role: Role, old: RoleName | None, why: str) -> None:
        """Make ``role`` the present one; nothing in flight belongs to it."""
        self._role = role
        if self._connections.reset():
            self._emit(fx.ResetConnections())
        voted = role.voted
        self._out.append(
            fx.Trace(
                "role",
                role.epoch,
                {
                    "from": None if old is None else str(old),
                    "to": str(role.name),
                    "leader": role.leader_id,
                    "voted": None if voted is None else voted.id,
                    "voted_dir": None if voted is None else directory(voted),
                    "why": why,
                    "by": None if self._cause is None else type(self._cause).__name__,
                },
            )
        )

    def _left_leadership(self, leader: Leader) -> None:
        """Tell everybody who waits for this leader; overridden where they are kept."""
        raise NotImplementedError

    def _become_unattached(self, epoch: int, why: str, leader_id: int | None = None) -> None:
        """Move to ``epoch`` without a leader to fetch from. A vote survives within an epoch."""
        voted = self._role.voted if epoch == self.epoch else None
        deadline_ms = self._random_election_deadline() if self.is_voter else None
        self._become(Unattached(epoch, leader_id, voted, deadline_ms), why)

    def _become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, why: str) -> None:
        """Follow ``leader_id``. A vote survives within an epoch."""
        assert leader_id != self.config.key.id, "a replica cannot follow itself"
        voted = self._role.voted if epoch == self.epoch else None
        self._become(self._follower(epoch, leader_id, endpoint, voted), why)

    def _follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, voted: ReplicaKey | None
    ) -> Follower:
        timeout_ms = self.config.fetch_timeout_ms
        update_voter_ms = self._now_ms + UPDATE_VOTER_FETCH_TIMEOUTS * timeout_ms
        deadline_ms = self._now_ms + timeout_ms
        return Follower(epoch, leader_id, endpoint, voted, deadline_ms, update_voter_ms)

    def _become_prospective(self, why: str) -> None:
        """Ask whether an election could be won, before disturbing anybody with a new epoch."""
        role = self._role
        self._become(
            Prospective(
                role.epoch,
                # A lone voter that led before has nobody to go back to.
                None if role.leader_id == self.config.key.id else role.leader_id,
                role.leader_endpoint if isinstance(role, Follower) else None,
                role.voted,
                self._random_election_deadline(),
                self._new_tally(),
            ),
            why,
        )

    def _new_tally(self) -> VoteTally:
        return VoteTally(len(self._voters), granted={self.config.key.id})

    def _learn(
        self, epoch: int, leader_id: int | None, endpoint: Endpoint | None, why: str
    ) -> bool:
        """Take over the (not older) epoch and leader that somebody told; False if that conflicts.

        Two leaders of one epoch, or a newer epoch that this replica is said to lead, cannot both
        be true with a healthy quorum. Kafka dies of it. Here the teller's word is not followed
        and not fatal either: it proves that *somebody* is wrong, and one bad packet must not be
        able to kill a healthy replica. Whoever checks the traces sees both leaders.
        """
        role = self._role
        if leader_id == self.config.key.id:
            # "You lead epoch e": a disk was lost. Never vote in that epoch again, but ask for
            # another one: the teller will say so until there is one.
            if epoch > role.epoch:
                self._become_unattached(epoch, why, leader_id)
            return isinstance(role, Leader | Resigned | Prospective) and epoch == role.epoch
        if leader_id is not None and endpoint is None:
            endpoint = self._voters.endpoint(leader_id)
        if epoch > role.epoch:
            if leader_id is None or endpoint is None:
                self._become_unattached(epoch, why, leader_id)
            else:
                self._become_follower(epoch, leader_id, endpoint, why)
            return True
        if leader_id is None or leader_id == role.leader_id:
            if leader_id is not None and endpoint is not None and role.leader_endpoint is None:
                self._become_follower(epoch, leader_id, endpoint, why)
            return True
        if role.leader_id is not None:
            return False
        if endpoint is not None:
            self._become_follower(epoch, leader_id, endpoint, why)
        return True


def known_id(node_id: int) -> int | None:
    """A node id for the trace: None for an anonymous reader or an unknown bootstrap server."""
    return node_id if node_id >= 0 else None


def _election_fields(state: ElectionState) -> dict[str, Any]:
    voted = state.voted
    return {
        "leader": state.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": None if voted is None else directory(voted),
    }
