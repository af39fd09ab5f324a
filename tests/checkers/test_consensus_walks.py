"""The monitor on the real core: silent on healthy random walks, and it names planted bugs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from checkers.monitor.catalogue import invariants_for, names_of
from checkers.monitor.monitor import Monitor
from node.core.messages import Error, FetchRequest
from node.core.progress import ReplicaProgress
from node.core.replica import Replica
from node.core.roles import Leader
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft import walk as raft_walk
from tests.support.raft.trace import TracedCluster, walk

SEEDS_MAX = 60
STEPS = 1_500


@pytest.fixture(autouse=True)
def _traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_walk, "Cluster", TracedCluster)


# What a walk of each kind has none of; the core alone acknowledges, applies and reads nothing.
OUTSIDE = {"S20", "S21", "S34"}
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
        del role
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


class VotesForAnyLog(Replica):
    def _grants_vote(self, candidate: ReplicaKey, *, up_to_date: bool) -> bool:
        del up_to_date
        return super()._grants_vote(candidate, up_to_date=True)


class WinsWithHalf(Replica):
    def _has_majority(self, granted: set[int]) -> bool:
        return len(granted) >= max(1, len(self.config.voters) // 2)


class ResumesLeadership(Replica):
    def _start_resigned(self) -> None:
        self._election = ElectionState(self._election.epoch, None, self.config.key)
        self._initial_role()
        self._become_leader((self.config.key.id,))


class FindsNoDivergence(Replica):
    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return None if request.offset <= self._log_end else super()._find_divergence(request)


class ServesAnyEpoch(Replica):
    def _check_leader_only(self, epoch: int) -> Error:
        return super()._check_leader_only(self.epoch if self.is_leader else epoch)


class KeptByAnybody(Replica):
    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        super()._take_progress(role, voter, request)
        if voter is None:
            self._heard_from(role, min(set(role.progress.voters) - {role.leader_id}))


BUGS: list[tuple[type[Replica], set[str]]] = [
    (CountsUnflushed, {"S13"}),
    (FetchesBeforeFlush, {"S16"}),
    (CountsHalf, {"S13"}),
    (CommitsOldEpochs, {"S14"}),
    (ForgetsVote, {"S3"}),
    (VotesTwice, {"S2", "S3"}),
    (VotesForAnyLog, {"S5"}),
    (WinsWithHalf, {"S1"}),
    (ResumesLeadership, {"S7"}),
    (ResumesLeadership, {"S26"}),
    (FindsNoDivergence, {"S8", "S9", "S4"}),
    (ServesAnyEpoch, {"S31"}),
    (KeptByAnybody, {"S29"}),
]


@pytest.mark.parametrize(("bug", "names"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_a_walk_with_a_bug_breaks_the_promise_that_the_bug_breaks(
    bug: type[Replica], names: set[str]
) -> None:
    found: set[str] = set()
    for seed in range(SEEDS_MAX):
        found |= {anomaly.invariant for anomaly in walk(seed, STEPS, replica=bug).anomalies}
        if found & names:
            return
    pytest.fail(f"in {SEEDS_MAX} walks only {sorted(found)} were broken")
