# ruff: noqa: ARG002 - a bug need not look at all that it is told
"""Random walks keep every invariant, and the invariants are able to see a bug."""

from __future__ import annotations

from typing import Any

import pytest

from node.core.messages import FetchRequest, VoteRequest
from node.core.progress import ReplicaProgress
from node.core.replica import Replica
from node.core.roles import Leader
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft.walk import Walk


@pytest.mark.parametrize("seed", range(12))
def test_a_random_walk_keeps_every_invariant_and_recovers(seed: int) -> None:
    walk = Walk(seed)
    walk.run(1_500)
    walk.recover()


def test_the_same_seed_walks_the_same_way() -> None:
    walks = [Walk(7), Walk(7)]
    for walk in walks:
        walk.run(800)
    assert walks[0].cluster.lines == walks[1].cluster.lines


class CountsUnflushed(Replica):
    def _local_quorum_end(self) -> int:
        return self._log_end

    def _wake_for_data(self, role: Leader) -> None:
        role.progress.local().end_offset = self._log_end
        super()._wake_for_data(role)


class FetchesBeforeFlush(Replica):
    def _is_durable(self) -> bool:
        return True


class CountsHalf(Replica):
    def _quorum_end_offset(self, role: Leader) -> int:
        ends = role.progress.end_offsets_descending()
        return ends[max(0, len(ends) // 2 - 1)]


class CommitsOldEpochs(Replica):
    def _may_commit(self, role: Leader, end: int) -> bool:
        return end > 0


class ForgetsVote(Replica):
    def _persist_vote(self, candidate: ReplicaKey) -> None:
        """Only in memory."""


class VotesTwice(Replica):
    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        voted = self._role.voted
        if voted is not None and not isinstance(self._role, Leader):
            return super()._grants_vote(voted, up_to_date=up_to_date)
        return super()._grants_vote(candidate, up_to_date=up_to_date)


class VotesForStaleLogs(Replica):
    def _is_up_to_date(self, request: VoteRequest) -> bool:
        return True


class WinsWithHalf(Replica):
    def _has_majority(self, granted: set[int]) -> bool:
        return len(granted) >= max(1, len(self.config.voters) // 2)


class ResumesLeadership(Replica):
    """KAFKA-10527: starts over in the epoch that it led."""

    def _start_resigned(self) -> None:
        self._election = ElectionState(self._election.epoch, None, self.config.key)
        self._initial_role()
        self._become_leader((self.config.key.id,))


class FindsNoDivergence(Replica):
    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return None if request.offset <= self._log_end else super()._find_divergence(request)


class ReadsAtOnce(Replica):
    def _confirmed_barrier(self, role: Leader) -> int:
        return self._barriers_asked


class ReadsByParkedFetch(Replica):
    def _confirm_barriers(self, role: Leader, voter: ReplicaProgress, connection: int) -> None:
        """Takes any fetch that arrives after the read, begun before it or not."""
        voter.confirmed_barrier = self._barriers_asked
        self._settle_barriers(role)


class ForgetsHighWatermark(Replica):
    def _follow_high_watermark(self, leader_high_watermark: int | None) -> None:
        if leader_high_watermark is not None:
            self._commit(min(leader_high_watermark, self._log_end), **{"as": "follower"})


BUGS: list[Any] = [
    CountsUnflushed,
    FetchesBeforeFlush,
    CountsHalf,
    CommitsOldEpochs,
    ForgetsVote,
    VotesTwice,
    VotesForStaleLogs,
    WinsWithHalf,
    ResumesLeadership,
    FindsNoDivergence,
    ReadsAtOnce,
    ReadsByParkedFetch,
    ForgetsHighWatermark,
]
SEEDS_MAX = 60


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_walk_finds_a_seeded_bug(bug: type[Replica]) -> None:
    for seed in range(SEEDS_MAX):
        try:
            Walk(seed, replica=bug).run(1_500)
        except AssertionError:
            return
    pytest.fail(f"{bug.__name__} survived {SEEDS_MAX} walks")
