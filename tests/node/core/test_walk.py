# ruff: noqa: ARG002 - a bug need not look at all that it is told
"""Random walks keep every invariant, and the invariants are able to see a bug."""

from __future__ import annotations

import pytest

from node.core.elections import Elections
from node.core.follower.fetching import Fetching
from node.core.leader.barriers import Barriers
from node.core.leader.fetches import Fetches
from node.core.leader.replication import Replication
from node.core.messages import FetchRequest, VoteRequest
from node.core.own_log import OwnLog
from node.core.parts import CoreParts
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from node.core.votes import Votes
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


class CountsUnflushed(Replication):
    def local_quorum_end(self) -> int:
        return self._state.log.end

    def replicate(self, role: Leader) -> None:
        role.progress.local().end_offset = self._state.log.end
        super().replicate(role)


class FetchesBeforeFlush(Fetching):
    def _is_durable(self) -> bool:
        return True


class CountsHalf(Replication):
    def _quorum_end_offset(self, role: Leader) -> int:
        ends = role.progress.end_offsets_descending()
        return ends[max(0, len(ends) // 2 - 1)]


class CommitsOldEpochs(Replication):
    def _may_commit(self, role: Leader, end: int) -> bool:
        return end > 0


class ForgetsVote(Votes):
    def _persist_vote(self, candidate: ReplicaKey) -> None:
        """Only in memory."""


class VotesTwice(Votes):
    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        voted = self._state.role.voted
        if voted is not None and not isinstance(self._state.role, Leader):
            return super()._grants_vote(voted, up_to_date=up_to_date)
        return super()._grants_vote(candidate, up_to_date=up_to_date)


class VotesForStaleLogs(Votes):
    def _is_up_to_date(self, request: VoteRequest) -> bool:
        return True


class WinsWithHalf(Elections):
    def _has_majority(self, granted: set[int]) -> bool:
        return len(granted) >= max(1, len(self._state.config.voters) // 2)


class ResumesLeadership(Elections):
    """KAFKA-10527: starts over in the epoch that it led."""

    def _start_resigned(self) -> None:
        state, key = self._state, self._state.config.key
        state.election = ElectionState(state.election.epoch, None, key)
        self.take_initial_role()
        self._leadership.begin((key.id,))


class FindsNoDivergence(Fetches):
    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return None if request.offset <= self._state.log.end else super()._find_divergence(request)


class ReadsAtOnce(Barriers):
    def _confirmed_barrier(self, role: Leader) -> int:
        return self._replies.rounds


class ReadsByParkedFetch(Barriers):
    def confirm(self, role: Leader, voter: ReplicaProgress, connection: int) -> None:
        """Takes any fetch that arrives after the read, begun before it or not."""
        voter.confirmed_barrier = self._replies.rounds
        self._settle(role)


class ForgetsHighWatermark(OwnLog):
    def follow_high_watermark(self, leader_high_watermark: int | None) -> None:
        if leader_high_watermark is not None:
            self.commit(min(leader_high_watermark, self.end), **{"as": "follower"})


BUGS: dict[str, CoreParts] = {
    "CountsUnflushed": CoreParts(replication=CountsUnflushed),
    "FetchesBeforeFlush": CoreParts(fetching=FetchesBeforeFlush),
    "CountsHalf": CoreParts(replication=CountsHalf),
    "CommitsOldEpochs": CoreParts(replication=CommitsOldEpochs),
    "ForgetsVote": CoreParts(votes=ForgetsVote),
    "VotesTwice": CoreParts(votes=VotesTwice),
    "VotesForStaleLogs": CoreParts(votes=VotesForStaleLogs),
    "WinsWithHalf": CoreParts(elections=WinsWithHalf),
    "ResumesLeadership": CoreParts(elections=ResumesLeadership),
    "FindsNoDivergence": CoreParts(fetches=FindsNoDivergence),
    "ReadsAtOnce": CoreParts(barriers=ReadsAtOnce),
    "ReadsByParkedFetch": CoreParts(barriers=ReadsByParkedFetch),
    "ForgetsHighWatermark": CoreParts(log=ForgetsHighWatermark),
}
SEEDS_MAX = 60


@pytest.mark.parametrize("bug", BUGS)
def test_the_walk_finds_a_seeded_bug(bug: str) -> None:
    for seed in range(SEEDS_MAX):
        try:
            Walk(seed, core=BUGS[bug]).run(1_500)
        except AssertionError:
            return
    pytest.fail(f"{bug} survived {SEEDS_MAX} walks")
