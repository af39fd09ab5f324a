"""``Leadership`` begins an epoch, announces it, and gives it up without a quorum.

Source: KIP-595 "Check quorum" (KAFKA-15489); KIP-853 "Leader changes" (the voter set at the start
of an epoch, a leader that removes itself).
"""

from __future__ import annotations

from node.core.effects import FlushLog, LeadershipAcquired, LeadershipLost
from node.core.leader.replication import Replication
from node.core.messages import (
    BeginQuorumEpochRequest,
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    Voters,
)
from node.core.own_log import voter_keys
from node.core.progress import LeaderProgress
from node.core.role_changes import RoleChanges
from node.core.roles import Leader
from node.core.state import ReplicaState, earliest


class Leadership:
    """This handler gains a leadership, keeps it while a majority fetches, and ends it."""

    def __init__(self, state: ReplicaState, roles: RoleChanges, replication: Replication) -> None:
        self._state = state
        self._roles = roles
        self._replication = replication

    # ------------------------------------------------------------------ gaining and losing it

    def begin(self, grants: tuple[int, ...]) -> None:
        """Lead: on disk first, then open the epoch with a LeaderChange batch at its start."""
        state, log = self._state, self._state.log
        role = self.new_role()
        role.progress.local().end_offset = self._replication.local_quorum_end()
        self._roles.become(role, "won the election")
        state.out.trace(
            "elected",
            grants=list(grants),
            voters=voter_keys(log.voters),
            es=role.epoch_start,
            quorum_ms=self._check_quorum_ms,
        )
        self.open_epoch(role, grants)

    def new_role(self) -> Leader:
        """Make the role of a leader of the present epoch that begins at the log end."""
        state, key = self._state, self._state.config.key
        return Leader(
            epoch=state.epoch,
            voted=key,
            leader_id=key.id,
            leader_endpoint=state.advertised,
            epoch_start=state.log.end,
            progress=LeaderProgress(state.log.voters, key),
            check_quorum_deadline_ms=self._check_quorum_deadline(),
            begin_deadline_ms=state.now_ms,
            begin_pending=set(),
        )

    def open_epoch(self, role: Leader, grants: tuple[int, ...]) -> None:
        """Write the first batch of the epoch, and tell of it."""
        self._replication.append_controls(self._opening(grants))
        self._state.out.emit(
            LeadershipAcquired(role.epoch, role.epoch_start), FlushLog(self._state.log.end)
        )

    def _opening(self, grants: tuple[int, ...]) -> tuple[ControlRecord, ...]:
        """Give the control records that open an epoch, all of them in one batch.

        The voter set is among them when followers cannot have it yet, as it is only in the
        bootstrap snapshot, and when this leader's own entry of it is out of date.
        Source: Kafka 4.1 ``LeaderState.appendStartOfEpochControlRecords``.
        """
        config, log = self._state.config, self._state.log
        voters, level, offset = log.voters, log.kraft_version, log.history.offset
        # Without directory ids: that is version 0, the only one that Kafka 4.x reads.
        change = LeaderChange(config.key.id, voters.ids, grants)
        is_in_log = offset is not None and offset >= 0
        if level < 1 or (is_in_log and not log.own_entry_is_outdated()):
            return (change,)
        own = config.as_voter
        updated = voters if own is None else voters.with_voter(own)
        return (change, KRaftVersion(level), Voters(updated))

    def on_left(self, leader: Leader) -> None:
        """Tell the controller that its leadership is over."""
        self._state.out.emit(LeadershipLost(leader.epoch))

    def on_voters_changed(self) -> None:
        """Keep progress, check quorum and announcements for the voters of the new set."""
        state, role = self._state, self._state.role
        if not isinstance(role, Leader):
            return
        role.progress.follow(state.log.voters)
        role.heard_from &= role.progress.voters.keys()
        role.begin_pending &= role.progress.voters.keys()
        if state.is_lone_voter or role.check_quorum_deadline_ms is None:
            role.check_quorum_deadline_ms = self._check_quorum_deadline()

    # ------------------------------------------------------------------ time

    def poll(self, role: Leader) -> None:
        """Resign without a quorum, or when removed; else announce the leadership."""
        state = self._state
        if self._quorum_is_silent(role):
            self._trace_quorum(role, state.other_voter_ids(), ok=False)
            self._roles.become_resigned(role, "check quorum: no majority is fetching")
            return
        if self._is_removed(role):
            self._roles.become_resigned(role, "removed from the voters")
            return
        if role.begin_deadline_ms <= state.now_ms:
            role.begin_deadline_ms = state.now_ms + self._begin_period_ms()
            role.begin_pending = state.other_voter_ids()
        if role.begin_pending:
            self._announce(role)

    def _announce(self, role: Leader) -> None:
        """Tell the voters of this leadership that have not said that they know."""
        for voter in self._state.idle_voters(role.begin_pending):
            assert role.leader_endpoint is not None, "a voter has an endpoint"
            self._state.send(
                voter.key.id,
                voter.endpoint,
                BeginQuorumEpochRequest(
                    leader_id=role.leader_id,
                    epoch=role.epoch,
                    leader_endpoint=role.leader_endpoint,
                    voter=voter.key,
                    cluster_id=self._state.config.cluster_id,
                ),
            )

    def deadline_ms(self, role: Leader) -> int | None:
        """Say when there is something to do next."""
        return earliest(
            role.check_quorum_deadline_ms,
            role.begin_deadline_ms,
            self._state.next_send_ms(role.begin_pending),
        )

    def _is_removed(self, role: Leader) -> bool:
        """Say whether a voter set without this leader is committed (KIP-853)."""
        log = self._state.log
        if log.is_voter:
            return False
        offset, high_watermark = log.history.offset, role.high_watermark
        return offset is not None and high_watermark is not None and offset < high_watermark

    def _begin_period_ms(self) -> int:
        return max(1, self._state.config.fetch_timeout_ms // 2)

    # ------------------------------------------------------------------ check quorum

    def _check_quorum_deadline(self) -> int | None:
        """Say when to resign without a majority; never for a lone voter (KAFKA-16144)."""
        if self._state.is_lone_voter:
            return None
        return self._state.now_ms + self._check_quorum_ms

    @property
    def _check_quorum_ms(self) -> int:
        return self._state.config.fetch_timeout_ms * 3 // 2

    def _quorum_is_silent(self, role: Leader) -> bool:
        deadline_ms = role.check_quorum_deadline_ms
        return deadline_ms is not None and deadline_ms <= self._state.now_ms

    def heard_from(self, role: Leader, voter_id: int) -> None:
        """Credit a voter's fetch; a majority of them (with ourselves) restarts the timer."""
        log, now_ms = self._state.log, self._state.now_ms
        role.heard_from.add(voter_id)
        others_needed = log.voters.majority - (1 if log.is_voter else 0)
        if len(role.heard_from) >= others_needed:
            if role.quorum_told_ms <= now_ms:  # with three voters each fetch is a majority
                role.quorum_told_ms = now_ms + self._begin_period_ms()
                self._trace_quorum(role, role.heard_from, ok=True)
            role.heard_from.clear()
            role.check_quorum_deadline_ms = self._check_quorum_deadline()

    def _trace_quorum(self, role: Leader, heard: set[int], *, ok: bool) -> None:
        """Tell who keeps this leader in its role, or who has failed to."""
        state = self._state
        voters, deadline_ms = role.progress.voters, role.check_quorum_deadline_ms
        began_ms = None if deadline_ms is None else deadline_ms - self._check_quorum_ms
        state.out.trace(
            "quorum",
            ok=ok,
            heard=[voters[id_].heard(state.clock_ms) for id_ in sorted(heard)],
            since_ms=None if began_ms is None else state.now_ms - began_ms,
            quorum_ms=self._check_quorum_ms,
        )
