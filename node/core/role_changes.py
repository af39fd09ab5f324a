"""``RoleChanges`` is the only place that changes the role of a replica.

A change is checked against ``TRANSITIONS``, written to disk first, and then made; those who hear
of a lost leadership are told last.

Source: KIP-595 "quorum-state"; Kafka 4.1 ``QuorumState``.
"""

from __future__ import annotations

from typing import Any

from node.core.effects import DiscardSnapshot, PersistElectionState, ResetConnections, Trace
from node.core.own_log import IllegalStateError, directory
from node.core.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    RoleName,
    Unattached,
    VoteTally,
)
from node.core.state import ReplicaState
from node.core.types import ElectionState, Endpoint, ReplicaKey

UPDATE_VOTER_FETCH_TIMEOUTS = 3  # Kafka 4.1 FollowerState: a few rounds of fetching first
_MAY_BE_OBSERVER = (RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED)


class RoleChanges:
    """This handler checks, persists and makes the changes of the role."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    # ------------------------------------------------------------------ any change

    def persist(self, election: ElectionState) -> None:
        """Put epoch, leader and vote on disk, unless they are there already."""
        state = self._state
        if election == state.election:
            return
        state.out.emit(PersistElectionState(election))
        state.election = election
        state.out.effects.append(Trace("qs", election.epoch, _election_fields(election)))

    def become(self, role: Role, why: str) -> None:
        """Leave the present role for ``role``: check, persist, change, then tell."""
        self._check_role(role, why)
        old = self._state.role
        if not isinstance(role, Prospective | Resigned):
            self.persist(role.durable)
        self.enter(role, old.name, why)
        if isinstance(old, Leader):
            for tell in self._state.events.left:
                tell(old)
        elif isinstance(old, Follower) and old.download is not None:
            self._state.out.emit(DiscardSnapshot(old.download.id))

    def _check_role(self, role: Role, why: str) -> None:
        """Raise IllegalStateError when ``role`` must not follow the present one."""
        old, log = self._state.role, self._state.log
        rule = TRANSITIONS.get((old.name, role.name))
        if rule is None or not rule.allows(old.epoch, role.epoch):
            raise IllegalStateError(
                f"{old.name} of epoch {old.epoch} must not become {role.name} of epoch "
                f"{role.epoch} ({why})"
            )
        if not log.is_voter and role.name not in _MAY_BE_OBSERVER:
            raise IllegalStateError(f"observer {log.config.key} must not become {role.name}")

    def enter(self, role: Role, old: RoleName | None, why: str) -> None:
        """Make ``role`` the present one; nothing in flight belongs to it."""
        state = self._state
        state.role = role
        state.out.epoch = role.epoch
        if state.connections.reset():
            state.out.emit(ResetConnections())
        voted = role.voted
        state.out.trace(
            "role",
            **{"from": None if old is None else str(old)},
            to=str(role.name),
            leader=role.leader_id,
            voted=None if voted is None else voted.id,
            voted_dir=None if voted is None else directory(voted),
            why=why,
            by=None if state.cause is None else type(state.cause).__name__,
        )

    # ------------------------------------------------------------------ each role

    def become_unattached(self, epoch: int, why: str, leader_id: int | None = None) -> None:
        """Move to ``epoch`` without a leader to fetch from. A vote survives within an epoch."""
        state = self._state
        voted = state.role.voted if epoch == state.epoch else None
        deadline_ms = state.random_election_deadline() if state.log.is_voter else None
        self.become(Unattached(epoch, leader_id, voted, deadline_ms), why)

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, why: str) -> None:
        """Follow ``leader_id``. A vote survives within an epoch."""
        state = self._state
        assert leader_id != state.config.key.id, "a replica cannot follow itself"
        voted = state.role.voted if epoch == state.epoch else None
        self.become(self.follower(epoch, leader_id, endpoint, voted), why)

    def follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, voted: ReplicaKey | None
    ) -> Follower:
        """Make the role of a follower whose timers begin now."""
        now_ms, timeout_ms = self._state.now_ms, self._state.config.fetch_timeout_ms
        update_voter_ms = now_ms + UPDATE_VOTER_FETCH_TIMEOUTS * timeout_ms
        return Follower(epoch, leader_id, endpoint, voted, now_ms + timeout_ms, update_voter_ms)

    def become_prospective(self, why: str) -> None:
        """Ask whether an election could be won, before disturbing anybody with a new epoch."""
        state, role = self._state, self._state.role
        self.become(
            Prospective(
                role.epoch,
                # A lone voter that led before has nobody to go back to.
                None if role.leader_id == state.config.key.id else role.leader_id,
                role.leader_endpoint if isinstance(role, Follower) else None,
                role.voted,
                state.random_election_deadline(),
                self.new_tally(),
            ),
            why,
        )

    def become_candidate(self, why: str) -> None:
        """Raise the epoch and vote for oneself, on disk before anybody is asked."""
        state = self._state
        deadline_ms = state.random_election_deadline()
        self.become(
            Candidate(state.epoch + 1, state.config.key, deadline_ms, self.new_tally()), why
        )

    def become_resigned(self, role: Leader, why: str) -> None:
        """Give up a leadership without forgetting it: no vote and no lead in this epoch again."""
        state = self._state
        deadline_ms = None if state.stopping else state.random_election_deadline()
        self.become(
            Resigned(
                role.epoch,
                role.voted,
                role.leader_id,
                role.leader_endpoint,
                deadline_ms,
                state.other_voter_ids(),
                role.progress.others_by_progress(),
            ),
            why,
        )

    def new_tally(self) -> VoteTally:
        """Make a tally that holds one's own vote."""
        return VoteTally(len(self._state.log.voters), granted={self._state.config.key.id})


def _election_fields(election: ElectionState) -> dict[str, Any]:
    """Give what the trace tells of an election state."""
    voted = election.voted
    return {
        "leader": election.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": None if voted is None else directory(voted),
    }
