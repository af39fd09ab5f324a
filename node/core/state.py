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
from node.core.epoch_cache import EpochCache
from node.core.messages import Batch, Error, Request
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
from node.core.types import ElectionState, Endpoint, OffsetAndEpoch, ReplicaKey

EPOCH_MAX = 2**31 - 2  # the wire has 31 bits, and an election must still be able to follow


class IllegalStateError(Exception):
    """Raised inside a step when this replica's own state is not what it must be."""


class ReplicaState:
    """State of one replica; the protocol is in the classes built on it."""

    def __init__(
        self, config: ReplicaConfig, election: ElectionState, log: LogState, rng: Rng
    ) -> None:
        self.config = config
        self._rng = rng
        self._election = election
        self._role: Role = Unattached(election.epoch, election.leader_id, election.voted, None)
        self._epochs = EpochCache(log.epochs)
        self._log_start = log.start_offset
        self._log_end = log.end_offset
        self._flushed = log.flushed_offset
        self._committed: int | None = None  # the highest high watermark of this incarnation
        self._connections = Connections()
        self._out: list[fx.Effect] = []
        self._now_ms = 0
        self._clock_ms = 0  # what the caller last said
        self._stopping = False

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
    def log_end_offset(self) -> int:
        """Offset of the next record (exclusive end)."""
        return self._log_end

    @property
    def flushed_offset(self) -> int:
        """Everything below is known to be on disk."""
        return self._flushed

    @property
    def is_voter(self) -> bool:
        """Whether this replica is in the voter set."""
        return self.config.is_voter

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
    def last(self) -> OffsetAndEpoch:
        """Log end offset and the epoch of the last record, by which logs are compared."""
        return OffsetAndEpoch(self._log_end, self._epochs.latest_epoch)

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

    def _emit(self, *effects: fx.Effect) -> None:
        self._out.extend(effects)

    def _trace(self, type_: str, **fields: Any) -> None:
        self._out.append(fx.Trace(type_, self.epoch, fields))

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
        old = self._role
        rule = TRANSITIONS.get((old.name, role.name))
        if rule is None or not rule.allows(old.epoch, role.epoch):
            raise IllegalStateError(
                f"{old.name} of epoch {old.epoch} must not become {role.name} of epoch "
                f"{role.epoch} ({why})"
            )
        if not self.is_voter and role.name not in (RoleName.UNATTACHED, RoleName.FOLLOWER):
            raise IllegalStateError(f"observer {self.config.key} must not become {role.name}")
        if not isinstance(role, Prospective | Resigned):
            self._persist(role.durable)
        self._enter(role, old.name, why)
        if isinstance(old, Leader):
            self._left_leadership(old)

    def _enter(self, role: Role, old: RoleName | None, why: str) -> None:
        """Make ``role`` the present one; nothing in flight belongs to it."""
        self._role = role
        if self._connections.reset():
            self._emit(fx.ResetConnections())
        voted = None if role.voted is None else role.voted.id
        self._out.append(
            fx.Trace(
                "role",
                role.epoch,
                {
                    "from": None if old is None else str(old),
                    "to": str(role.name),
                    "leader": role.leader_id,
                    "voted": voted,
                    "why": why,
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
        deadline_ms = self._now_ms + self.config.fetch_timeout_ms
        self._become(Follower(epoch, leader_id, endpoint, voted, deadline_ms), why)

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
        return VoteTally(len(self.config.voters), granted={self.config.key.id})

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
            # "You lead epoch e": a disk was lost. Never vote in that epoch again.
            if epoch > role.epoch:
                self._become_unattached(epoch, why, leader_id)
            return isinstance(role, Leader | Resigned) and epoch == role.epoch
        if leader_id is not None and endpoint is None:
            endpoint = self.config.voters.endpoint(leader_id)
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

    # ------------------------------------------------------------------ the log

    def _appended(self, batch: Batch) -> None:
        """Account for a batch of the leader that is now in the log."""
        self._epochs.assign(batch.epoch, batch.base_offset)
        self._log_end = batch.last_offset + 1

    def _truncate(self, to: int, why: str) -> None:
        """Cut the log back to ``to``; committed records must never go."""
        self._check_truncation(to)
        was = self._log_end
        self._trace("trunc", to=to, was=was, why=why)
        self._emit(fx.TruncateLog(to))
        # Even when no record goes, the epoch of a leader that wrote nothing must.
        self._epochs.truncate_from_end(to)
        self._log_end = to
        self._flushed = min(self._flushed, to)

    def _check_truncation(self, to: int) -> None:
        if self._committed is not None and to < self._committed:
            raise IllegalStateError(
                f"asked to truncate to {to}, below the high watermark {self._committed}"
            )

    @property
    def _must_flush(self) -> bool:
        """Whether what is appended must be on disk before it is told to a leader."""
        return self.config.flush_before_fetch or self.is_voter

    def _commit(self, high_watermark: int, **trace: Any) -> None:
        """Expose a high watermark that has grown."""
        self._committed = high_watermark
        self._trace("hwm", v=high_watermark, **trace)
        self._emit(fx.HighWatermarkAdvanced(high_watermark))


def known_id(node_id: int) -> int | None:
    """A node id for the trace: None for an anonymous reader or an unknown bootstrap server."""
    return node_id if node_id >= 0 else None


def _election_fields(state: ElectionState) -> dict[str, Any]:
    voted = state.voted
    directory_id = None if voted is None else voted.directory_id
    return {
        "leader": state.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": None if directory_id is None else directory_id.hex,
    }
