"""``Replication`` appends what a leader writes, and commits it when a majority has it.

Source: KIP-595 "Log replication".
"""

from __future__ import annotations

from node.core.effects import AppendAsLeader, FlushLog, ProposalAccepted, ProposalRejected
from node.core.inputs import Propose
from node.core.leader.fetch_replies import FetchReplies
from node.core.messages import ControlRecord, ControlRecords, Records
from node.core.roles import Leader
from node.core.state import ReplicaState


class Replication:
    """This handler appends, and moves the high watermark."""

    def __init__(self, state: ReplicaState, replies: FetchReplies) -> None:
        self._state = state
        self._replies = replies

    # ------------------------------------------------------------------ appending

    def _append(self, content: ControlRecords | Records, count: int) -> int:
        """Append one batch at the log end; gives its last offset."""
        log, epoch = self._state.log, self._state.epoch
        base = log.end
        self._state.out.emit(AppendAsLeader(base, epoch, content))
        log.epochs.assign(epoch, base)
        log.end = base + count
        return log.end - 1

    def append_controls(self, records: tuple[ControlRecord, ...]) -> int:
        """Append one control batch, in force from here on; gives its last offset."""
        base = self._state.log.end
        last = self._append(ControlRecords(records), len(records))
        self._state.log.take_controls(base, records)
        return last

    def replicate(self, role: Leader) -> None:
        """Flush what was appended; followers copy it meanwhile."""
        # We count ourselves only after the flush.
        self._replies.wake_for_data(role)
        self._state.out.emit(FlushLog(self._state.log.end))

    def on_propose(self, proposal: Propose) -> None:
        """Append what the controller wants in the log, if it was prepared in this very epoch."""
        state, role, log = self._state, self._state.role, self._state.log
        if not isinstance(role, Leader) or proposal.epoch != role.epoch:
            state.out.emit(ProposalRejected(proposal.token, role.leader_id))
            return
        base = log.end
        for records in proposal.entries:
            assert records.count > 0, "a batch without records has no offsets"
            self._append(records, records.count)
        state.out.emit(ProposalAccepted(proposal.token, base, log.end - 1))
        if log.end > base:
            self.replicate(role)

    def on_log_flushed(self, upto: int) -> None:
        """Note what is on disk; a leader counts itself up to there."""
        log, role = self._state.log, self._state.role
        flushed = min(upto, log.end)
        if flushed > log.flushed:
            log.flushed = flushed
            self._state.out.trace("flush", upto=flushed)
        if isinstance(role, Leader):
            role.progress.local().end_offset = self.local_quorum_end()
            self.advance_high_watermark(role)

    # ------------------------------------------------------------------ committing

    def local_quorum_end(self) -> int:
        """Say up to where the leader counts itself: what it has flushed, not what is written."""
        return self._state.log.flushed

    def _quorum_end_offset(self, role: Leader) -> int:
        """Find the highest end offset that a majority of the voters has reached."""
        ends = role.progress.end_offsets_descending()
        return ends[len(ends) // 2]

    def _may_commit(self, role: Leader, end: int) -> bool:
        """Tell whether counting may commit up to ``end``: past the epoch's start only (Raft 5.4.2).

        ``>`` and not ``>=``: the first record of the epoch must itself be covered (KAFKA-12619).
        """
        return end > role.epoch_start

    def advance_high_watermark(self, role: Leader) -> None:
        """Commit what a majority has, and tell those who wait for it."""
        end = self._quorum_end_offset(role)
        if not self._may_commit(role, end):
            return
        if role.high_watermark is not None and end <= role.high_watermark:
            return
        role.high_watermark = end
        self._state.log.commit(
            end,
            **{"as": "leader"},
            acks=[p.ack for p in role.progress.voters.values()],
            voters=list(role.progress.voters),
        )
        for tell in self._state.events.committed:
            tell(role, end)
