"""``Barriers`` confirms that a leader leads before a read is answered.

Not Kafka's: Raft thesis 6.4, with fetches for heartbeats.
"""

from __future__ import annotations

from node.core.effects import BarrierConfirmed, BarrierFailed
from node.core.inputs import ReadBarrier
from node.core.leader.fetch_replies import FetchReplies
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.core.state import ReplicaState


class Barriers:
    """This handler keeps the reads that wait for a leader to be confirmed."""

    def __init__(self, state: ReplicaState, replies: FetchReplies) -> None:
        self._state = state
        self._replies = replies
        self._pending: dict[int, int] = {}  # token -> round, oldest first

    def on_read_barrier(self, barrier: ReadBarrier) -> None:
        """Start (or join) a round of fetches that are sure to have begun after now.

        A fetch proves that its sender had not left our epoch when it sent it. It was sent after
        the reply to the fetch before it on the same connection; so if *that reply* went out after
        the barrier, so did the fetch. A majority of such proofs means that no newer leader can
        have been elected, let alone have committed anything, before the barrier.
        """
        role = self._state.role
        if not isinstance(role, Leader):
            self._state.out.emit(BarrierFailed(barrier.token, self._leader_hint()))
            return
        self._replies.rounds += 1
        self._pending[barrier.token] = self._replies.rounds
        self._replies.wake_voters(role)
        self._settle(role)

    def _leader_hint(self) -> int | None:
        """Give who else may lead; a resigned leader does not send anybody to itself."""
        leader_id = self._state.leader_id
        return None if leader_id == self._state.config.key.id else leader_id

    def confirm(self, role: Leader, voter: ReplicaProgress, connection: int) -> None:
        """Count a voter's fetch for the rounds that it is sure to have begun after."""
        if voter.replied is not None and voter.replied[0] == connection:
            voter.confirmed_barrier = max(voter.confirmed_barrier, voter.replied[1])
            self._settle(role)

    def needs(self, voter: ReplicaProgress) -> bool:
        """Say whether a pending barrier still needs another fetch of that voter, and soon."""
        last = next(reversed(self._pending.values()), 0)
        return voter.confirmed_barrier < last

    def _confirmed_barrier(self, role: Leader) -> int:
        """Find the newest barrier that a majority has confirmed, we among it if we are a voter."""
        local = role.progress.local()
        confirmed = sorted(
            (
                self._replies.rounds if p is local else p.confirmed_barrier
                for p in role.progress.voters.values()
            ),
            reverse=True,
        )
        return confirmed[self._state.log.voters.majority - 1]

    def _settle(self, role: Leader) -> None:
        """Answer reads whose round is complete, once this epoch has committed something."""
        if role.high_watermark is None or not self._pending:
            return
        confirmed = self._confirmed_barrier(role)
        for token, number in list(self._pending.items()):
            if number > confirmed:
                break
            del self._pending[token]
            self._state.out.emit(BarrierConfirmed(token, role.high_watermark))

    def on_committed(self, role: Leader, high_watermark: int) -> None:
        """Settle those that waited for the first commit of the epoch."""
        del high_watermark
        self._settle(role)

    def on_left(self, leader: Leader) -> None:
        """Fail all reads that wait."""
        del leader
        for token in self._pending:
            self._state.out.emit(BarrierFailed(token, self._leader_hint()))
        self._pending.clear()
