"""The monitor on the real core: silent on healthy random walks, and it names planted bugs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import pytest

from checkers.monitor.catalogue import invariants_for, names_of
from checkers.monitor.monitor import Monitor
from node.core.elections import Elections
from node.core.fencing import Fencing
from node.core.follower.fetching import Fetching
from node.core.leader.fetches import Fetches
from node.core.leader.replication import Replication
from node.core.messages import Error, FetchRequest
from node.core.parts import CoreParts
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from node.core.votes import Votes
from tests.support.raft import walk as raft_walk
from tests.support.raft.trace import TracedCluster, walk

SEEDS_MAX = 60
STEPS = 1_500


@pytest.fixture(autouse=True)
def _traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_walk, "Cluster", TracedCluster)


# What a walk of each kind has none of; the core alone acknowledges, applies and reads nothing, has
# no disk of a host that could lose its power, and does not tell of its polls.
OUTSIDE = {"S20", "S21", "S34", "S35", "S36", "S37", "L12"}
UNEXAMINED = {
    "static": {*OUTSIDE, "S17", "S22", "S23", "S24", "S27"},
    "snapshots": {*OUTSIDE, "S17", "S27"},
    "upgrade": OUTSIDE,
    "dynamic": OUTSIDE,
}


@pytest.mark.parametrize("kind", sorted(UNEXAMINED))
@pytest.mark.parametrize("seeds", [range(8), range(100, 108)])
def test_healthy_walks_raise_no_alarm(seeds: Sequence[int], kind: str) -> None:
    examined = dict.fromkeys(names_of("consensus"), 0)
    for seed in seeds:
        cluster = walk(seed, STEPS, kind=kind)
        assert cluster.anomalies == [], (seed, cluster.anomalies[0].message)
        assert cluster.monitor.gaps == []
        for name, count in cluster.monitor.checked.items():
            examined[name] += count
    assert {name for name, count in examined.items() if not count} == UNEXAMINED[kind]


def test_a_finished_trace_is_judged_as_it_was_while_it_happened() -> None:
    cluster = walk(3, STEPS)
    later = Monitor(invariants_for({}, checker="consensus"))
    assert later.feed_all(cluster.events) == []
    assert later.checked == cluster.monitor.checked
    assert list(later.world.commits) == list(cluster.monitor.world.commits)


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
        del role
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


class VotesForAnyLog(Votes):
    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        del up_to_date
        return super()._grants_vote(candidate, up_to_date=True)


class WinsWithHalf(Elections):
    def _has_majority(self, granted: set[int]) -> bool:
        return len(granted) >= max(1, len(self._state.config.voters) // 2)


class ResumesLeadership(Elections):
    def _start_resigned(self) -> None:
        state, key = self._state, self._state.config.key
        state.election = ElectionState(state.election.epoch, None, key)
        self.take_initial_role()
        self._leadership.begin((key.id,))


class FindsNoDivergence(Fetches):
    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return None if request.offset <= self._state.log.end else super()._find_divergence(request)


class ServesAnyEpoch(Fencing):
    def check_leader_only(self, epoch: int) -> Error:
        role = self._state.role
        return super().check_leader_only(role.epoch if isinstance(role, Leader) else epoch)


class KeptByAnybody(Fetches):
    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        super()._take_progress(role, voter, request)
        if voter is None:
            self._leadership.heard_from(role, min(set(role.progress.voters) - {role.leader_id}))


BUGS: list[tuple[CoreParts, set[str]]] = [
    (CoreParts(replication=CountsUnflushed), {"S13"}),
    (CoreParts(fetching=FetchesBeforeFlush), {"S16"}),
    (CoreParts(replication=CountsHalf), {"S13"}),
    (CoreParts(replication=CommitsOldEpochs), {"S14"}),
    (CoreParts(votes=ForgetsVote), {"S3"}),
    (CoreParts(votes=VotesTwice), {"S2", "S3"}),
    (CoreParts(votes=VotesForAnyLog), {"S5"}),
    (CoreParts(elections=WinsWithHalf), {"S1"}),
    (CoreParts(elections=ResumesLeadership), {"S7"}),
    (CoreParts(elections=ResumesLeadership), {"S26"}),
    (CoreParts(fetches=FindsNoDivergence), {"S8", "S9", "S4"}),
    (CoreParts(fencing=ServesAnyEpoch), {"S31"}),
    (CoreParts(fetches=KeptByAnybody), {"S29"}),
]


def _name(value: CoreParts | set[str]) -> str:
    """The name of the buggy class among the parts, or of the promises."""
    if isinstance(value, set):
        return "-".join(sorted(value))
    return next(
        str(getattr(value, each.name).__name__)
        for each in fields(CoreParts)
        if getattr(value, each.name) is not each.default
    )


@pytest.mark.parametrize(("bug", "names"), BUGS, ids=_name)
def test_a_walk_with_a_bug_breaks_the_promise_that_the_bug_breaks(
    bug: CoreParts, names: set[str]
) -> None:
    found: set[str] = set()
    for seed in range(SEEDS_MAX):
        found |= {anomaly.invariant for anomaly in walk(seed, STEPS, core=bug).anomalies}
        if found & names:
            return
    pytest.fail(f"in {SEEDS_MAX} walks only {sorted(found)} were broken")
