"""The read barrier: a leader confirms that it leads before a read is answered.

Not Kafka's: Raft thesis 6.4, with fetches for heartbeats.
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.inputs import ReadBarrier
from node.core.leading import Leading
from node.core.progress import ReplicaProgress
from node.core.roles import Leader


class Barriers(Leading):
    """The reads that wait for a leader to be confirmed."""

    _barriers: dict[int, int]  # token -> number, oldest first
    _barriers_asked: int  # how many barriers there have been; the number of the last one

    def _init_leading(self) -> None:
        self._barriers = {}
        self._barriers_asked = 0

    def _left_leadership(self, leader: Leader) -> None:
        for token in self._barriers:
            self._emit(fx.BarrierFailed(token, self._leader_hint()))
        self._barriers.clear()
        super()._left_leadership(leader)

    def _leader_hint(self) -> int | None:
        """Who else may lead; a resigned leader does not send anybody to itself."""
        return None if self.leader_id == self.config.key.id else self.leader_id

    def _committed_more(self, role: Leader, high_watermark: int) -> None:
        super()._committed_more(role, high_watermark)
        self._settle_barriers(role)

    def _on_read_barrier(self, barrier: ReadBarrier) -> None:
        """Start (or join) a round of fetches that are sure to have begun after now.

        A fetch proves that its sender had not left our epoch when it sent it. It was sent after
        the reply to the fetch before it on the same connection; so if *that reply* went out after
        the barrier, so did the fetch. A majority of such proofs means that no newer leader can
        have been elected, let alone have committed anything, before the barrier.
        """
        role = self._role
        if not isinstance(role, Leader):
            self._emit(fx.BarrierFailed(barrier.token, self._leader_hint()))
            return
        self._barriers_asked += 1
        self._barriers[barrier.token] = self._barriers_asked
        self._wake_voters(role)
        self._settle_barriers(role)

    def _wake_voters(self, role: Leader) -> None:
        """Answer the voters' parked fetches, so that new ones begin; defined where they are."""
        raise NotImplementedError

    def _confirm_barriers(self, role: Leader, voter: ReplicaProgress, connection: int) -> None:
        if voter.replied is not None and voter.replied[0] == connection:
            voter.confirmed_barrier = max(voter.confirmed_barrier, voter.replied[1])
            self._settle_barriers(role)

    def _awaits_barrier(self, voter: ReplicaProgress) -> bool:
        """Whether a pending barrier still needs another fetch of that voter, and soon."""
        last = next(reversed(self._barriers.values()), 0)
        return voter.confirmed_barrier < last

    def _confirmed_barrier(self, role: Leader) -> int:
        """The newest barrier that a majority has confirmed, we among it if we are a voter."""
        confirmed = sorted(
            (
                self._barriers_asked if p is role.progress.local() else p.confirmed_barrier
                for p in role.progress.voters.values()
            ),
            reverse=True,
        )
        return confirmed[self._voters.majority - 1]

    def _settle_barriers(self, role: Leader) -> None:
        """Let reads go on whose round is complete, once this epoch has committed something."""
        if role.high_watermark is None or not self._barriers:
            return
        confirmed = self._confirmed_barrier(role)
        for token, number in list(self._barriers.items()):
            if number > confirmed:
                break
            del self._barriers[token]
            self._emit(fx.BarrierConfirmed(token, role.high_watermark))
