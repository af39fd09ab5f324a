"""Leading: gaining and losing it, appending, committing, staying leader only with a quorum.

Source: KIP-595 "Log replication", "Check quorum" (KAFKA-15489); KIP-853 "Leader changes" (the
voter set at the start of an epoch, a leader that removes itself).
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.elections import Elections
from node.core.inputs import Propose
from node.core.messages import (
    BeginQuorumEpochRequest,
    ControlRecord,
    ControlRecords,
    KRaftVersion,
    LeaderChange,
    Records,
    Voters,
)
from node.core.own_log import voter_keys
from node.core.progress import LeaderProgress
from node.core.roles import Leader


class Leading(Elections):
    """What a replica does as leader of its epoch, but for answering."""

    # ------------------------------------------------------------------ gaining and losing it

    def _become_leader(self, grants: tuple[int, ...]) -> None:
        """Lead: on disk first, then open the epoch with a LeaderChange batch at its start."""
        key, start = self.config.key, self._log_end
        role = Leader(
            epoch=self.epoch,
            voted=key,
            leader_id=key.id,
            leader_endpoint=self.advertised,
            epoch_start=start,
            progress=LeaderProgress(self._voters, key),
            check_quorum_deadline_ms=self._check_quorum_deadline(),
            begin_deadline_ms=self._now_ms,
            begin_pending=set(),
        )
        role.progress.local().end_offset = self._local_quorum_end()
        self._become(role, "won the election")
        self._trace(
            "elected",
            grants=list(grants),
            voters=voter_keys(self._voters),
            es=start,
            quorum_ms=self._check_quorum_ms,
        )
        self._append_controls(self._opening(grants))
        self._emit(
            fx.LeadershipAcquired(role.epoch, start),
            fx.FlushLog(self._log_end),
        )

    def _opening(self, grants: tuple[int, ...]) -> tuple[ControlRecord, ...]:
        """The control records that open an epoch, all of them in one batch.

        The voter set is among them when followers cannot have it yet, as it is only in the
        bootstrap snapshot, and when this leader's own entry of it is out of date.
        Source: Kafka 4.1 ``LeaderState.appendStartOfEpochControlRecords``.
        """
        voters, level, key = self._voters, self.kraft_version, self.config.key
        # Without directory ids: that is version 0, the only one that Kafka 4.x reads.
        change = LeaderChange(key.id, voters.ids, grants)
        if level < 1 or (self._in_log(self._history.offset) and not self._entry_is_outdated()):
            return (change,)
        own = self.config.as_voter
        updated = voters if own is None else voters.with_voter(own)
        return (change, KRaftVersion(level), Voters(updated))

    def _in_log(self, offset: int | None) -> bool:
        return offset is not None and offset >= 0

    def _entry_is_outdated(self) -> bool:
        """Whether the voter set says something else of this voter than its configuration."""
        own, listed = self.config.as_voter, self._voters.voters.get(self.config.key.id)
        if own is None or listed is None or not self._is_voter:
            return False
        return (
            set(own.listeners) != set(listed.listeners)
            or own.kraft_versions != listed.kraft_versions
        )

    def _left_leadership(self, leader: Leader) -> None:
        """Tell everybody who waits for this leader; extended where they are kept."""
        self._emit(fx.LeadershipLost(leader.epoch))

    def _follow_voters(self) -> None:
        """Keep progress, check quorum and announcements for the voters of the new set."""
        super()._follow_voters()
        role = self._role
        if not isinstance(role, Leader):
            return
        role.progress.follow(self._voters)
        role.heard_from &= role.progress.voters.keys()
        role.begin_pending &= role.progress.voters.keys()
        if self._is_lone_voter or role.check_quorum_deadline_ms is None:
            role.check_quorum_deadline_ms = self._check_quorum_deadline()

    # ------------------------------------------------------------------ what time brings

    def _poll_leader(self, role: Leader) -> None:
        if self._quorum_is_silent(role):
            self._trace_quorum(role, self._other_voter_ids(), ok=False)
            self._become_resigned(role, "check quorum: no majority is fetching")
            return
        if self._is_removed(role):
            self._become_resigned(role, "removed from the voters")
            return
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

    def _is_removed(self, role: Leader) -> bool:
        """Whether a voter set without this leader is committed (KIP-853)."""
        offset, high_watermark = self._history.offset, role.high_watermark
        if self._is_voter or offset is None or high_watermark is None:
            return False
        return offset < high_watermark

    def _begin_period_ms(self) -> int:
        return max(1, self.config.fetch_timeout_ms // 2)

    def _check_quorum_deadline(self) -> int | None:
        """When to resign without a majority fetching; never for a lone voter (KAFKA-16144)."""
        if self._is_lone_voter:
            return None
        return self._now_ms + self._check_quorum_ms

    @property
    def _check_quorum_ms(self) -> int:
        return self.config.fetch_timeout_ms * 3 // 2

    def _quorum_is_silent(self, role: Leader) -> bool:
        deadline_ms = role.check_quorum_deadline_ms
        return deadline_ms is not None and deadline_ms <= self._now_ms

    def _heard_from(self, role: Leader, voter_id: int) -> None:
        """Credit a voter's fetch; a majority of them (with ourselves) restarts the timer."""
        role.heard_from.add(voter_id)
        others_needed = self._voters.majority - (1 if self._is_voter else 0)
        if len(role.heard_from) >= others_needed:
            if role.quorum_told_ms <= self._now_ms:  # with three voters each fetch is a majority
                role.quorum_told_ms = self._now_ms + self._begin_period_ms()
                self._trace_quorum(role, role.heard_from, ok=True)
            role.heard_from.clear()
            role.check_quorum_deadline_ms = self._check_quorum_deadline()

    def _trace_quorum(self, role: Leader, heard: set[int], *, ok: bool) -> None:
        """Tell who keeps this leader in its role, or who has failed to."""
        voters, deadline_ms = role.progress.voters, role.check_quorum_deadline_ms
        began_ms = None if deadline_ms is None else deadline_ms - self._check_quorum_ms
        self._trace(
            "quorum",
            ok=ok,
            heard=[voters[id_].heard(self._clock_ms) for id_ in sorted(heard)],
            since_ms=None if began_ms is None else self._now_ms - began_ms,
            quorum_ms=self._check_quorum_ms,
        )

    # ------------------------------------------------------------------ appending

    def _append_as_leader(self, content: ControlRecords | Records, count: int) -> int:
        """Append one batch at the log end; gives its last offset."""
        base = self._log_end
        self._emit(fx.AppendAsLeader(base, self.epoch, content))
        self._epochs.assign(self.epoch, base)
        self._log_end = base + count
        return self._log_end - 1

    def _append_controls(self, records: tuple[ControlRecord, ...]) -> int:
        """Append one control batch, in force from here on; gives its last offset."""
        base = self._log_end
        last = self._append_as_leader(ControlRecords(records), len(records))
        self._take_controls(base, records)
        return last

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

    def _wake_for_data(self, role: Leader) -> None:
        """Answer those who wait for records; defined where they are kept."""
        raise NotImplementedError

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
            acks=[p.ack for p in role.progress.voters.values()],
            voters=list(role.progress.voters),
        )
        self._committed_more(role, end)

    def _committed_more(self, role: Leader, high_watermark: int) -> None:
        """Tell everybody who waits for the high watermark; extended where they are kept."""
