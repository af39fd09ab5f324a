# ruff: noqa: ARG002 - a bug need not look at all that it is told
"""Random walks with snapshots and voter changes, and the bugs that they find."""

from __future__ import annotations

from typing import Any

import pytest

from node.core.follower.downloading import Downloading
from node.core.inputs import SnapshotInstalled
from node.core.leader.fetches import Fetches
from node.core.leader.leadership import Leadership
from node.core.leader.replication import Replication
from node.core.leader.voters.changes import Refusal
from node.core.leader.voters.rules import VoterRules
from node.core.messages import ControlRecord, FetchRequest
from node.core.own_log import OwnLog
from node.core.parts import CoreParts
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.core.types import OffsetAndEpoch
from tests.support.raft.walk import Walk


@pytest.mark.parametrize("kind", ["snapshots", "dynamic", "upgrade"])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_walk_keeps_every_invariant_and_recovers(kind: str, seed: int) -> None:
    walk = Walk(seed, kind=kind)
    walk.run(1_500)
    walk.recover()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["static", "snapshots", "dynamic", "upgrade"])
@pytest.mark.parametrize("first", range(1_000, 2_000, 50))
def test_a_thousand_walks_twice_as_long(kind: str, first: int) -> None:
    for seed in range(first, first + 50):
        walk = Walk(seed, kind=kind)
        try:
            walk.run(3_000)
            walk.recover()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_walks_go_where_they_should() -> None:
    """Every kind of change and every end of one, snapshots installed, sets truncated."""
    seen: set[str] = set()
    for seed in range(8):
        walk = Walk(seed, kind="dynamic")
        walk.run(1_500)
        walk.recover()
        seen |= {f"change {end}" for end in walk.cluster.changes.values()}
        for line in walk.cluster.lines:
            seen |= {word for word in WORDS if word in line}
    assert seen >= WORDS | {"change NONE", "change REQUEST_TIMED_OUT", "change DUPLICATE_VOTER"}


WORDS = {
    "AddVoter",
    "RemoveVoter",
    "UpdateVoter",
    "ApiVersions",
    "removed from the voters",
    "voters again",
    "installed snapshot",
    "INVALID_VOTER_KEY",
}


class AppliesVotersLate(OwnLog):
    """etcd #11284: a set is in force only when it is committed."""

    def take_controls(self, base: int, controls: tuple[ControlRecord, ...]) -> None:
        for offset, record in enumerate(controls, base):
            self.history.add(offset, record)

    def commit(self, high_watermark: int, **trace: Any) -> None:
        super().commit(high_watermark, **trace)
        self._adopt_voters(revert=False)


class KeepsTruncatedVoters(OwnLog):
    def _adopt_voters(self, *, revert: bool) -> None:
        if not revert:
            super()._adopt_voters(revert=revert)


class CountsRemovedLeader(Replication):
    """KAFKA-16530."""

    def _quorum_end_offset(self, role: Leader) -> int:
        ends = role.progress.end_offsets_descending()
        if not self._state.log.is_voter:
            ends = sorted([*ends, self._state.log.flushed], reverse=True)
        return ends[len(ends) // 2]


class LeadsOnAfterRemoval(Leadership):
    def _is_removed(self, role: Leader) -> bool:
        return False


class ChangesTwoAtATime(VoterRules):
    def _voters_committed(self, role: Leader) -> bool:
        return True


class ChangesBeforeItsFirstCommit(VoterRules):
    """The bug of single-server changes: an earlier leader's change may still be about."""

    def _refuse_any(self, role: Leader) -> Refusal | None:
        return None


class CountsAnyDisk(Fetches):
    """KAFKA-14077: a voter with an empty disk stands for the one that it was."""

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        if voter is None and request.replica.id != role.leader_id:
            voter = role.progress.voters.get(request.replica.id)
        super()._take_progress(role, voter, request)


class ServesNoSnapshots(Fetches):
    def _find_snapshot(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return None


class InstallsWithoutVoters(Downloading):
    def on_snapshot_installed(self, installed: SnapshotInstalled) -> None:
        super().on_snapshot_installed(SnapshotInstalled(installed.snapshot, None, 0))


class StandsAsObserver(OwnLog):
    """KAFKA-17067."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_voter = True

    def _adopt_voters(self, *, revert: bool) -> None:
        super()._adopt_voters(revert=revert)
        self.is_voter = True


BUGS: dict[str, CoreParts] = {
    "AppliesVotersLate": CoreParts(log=AppliesVotersLate),
    "KeepsTruncatedVoters": CoreParts(log=KeepsTruncatedVoters),
    "CountsRemovedLeader": CoreParts(replication=CountsRemovedLeader),
    "LeadsOnAfterRemoval": CoreParts(leadership=LeadsOnAfterRemoval),
    "ChangesTwoAtATime": CoreParts(voter_rules=ChangesTwoAtATime),
    "ChangesBeforeItsFirstCommit": CoreParts(voter_rules=ChangesBeforeItsFirstCommit),
    "CountsAnyDisk": CoreParts(fetches=CountsAnyDisk),
    "ServesNoSnapshots": CoreParts(fetches=ServesNoSnapshots),
    "InstallsWithoutVoters": CoreParts(downloading=InstallsWithoutVoters),
    "StandsAsObserver": CoreParts(log=StandsAsObserver),
}
SEEDS_MAX = 100


@pytest.mark.parametrize("bug", BUGS)
def test_the_walk_finds_a_seeded_bug(bug: str) -> None:
    for seed in range(SEEDS_MAX):
        try:
            Walk(seed, kind="dynamic", core=BUGS[bug]).run(1_500)
        except AssertionError:
            return
    pytest.fail(f"{bug} survived {SEEDS_MAX} walks")
