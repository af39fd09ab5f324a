"""A leader that makes a voter of whoever is asked for."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.core.progress import LeaderProgress
from node.core.roles import Leader
from node.core.types import ReplicaKey
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustingProgress(LeaderProgress):
    """Takes every replica for one that keeps up."""

    def caught_up_lately(self, key: ReplicaKey, now_ms: int) -> bool:
        """Say of every replica that it has caught up."""
        del key, now_ms
        return True


class TrustingLeader(Leadership):
    """Adds a voter as soon as that has told its versions, whatever it has of the log."""

    def begin(self, grants: tuple[int, ...]) -> None:
        """Lead, and take every replica for ready."""
        super().begin(grants)
        role = self._state.role
        if isinstance(role, Leader):
            role.progress = TrustingProgress(self._state.log.voters, self._state.config.key)
            role.progress.local().end_offset = self._replication.local_quorum_end()


@mutant(
    "unready-voter",
    breaks=("S27",),
    source="ours: KIP-853 adds a voter only when it has caught up, lest it stop all commits",
    scenario=Scenario(
        faults=(
            fault("slow-links", 2, 4, target="all", way="both", delay_ms=150, jitter_ms=0),
            fault("membership", 1, 2, target="follower"),
        ),
        settings={"krucible.quorum": "dynamic"},
        rate_hz=50,
    ),
)
def unready_voter(parts: NodeParts) -> NodeParts:
    """AddVoter does not ask whether the new voter has caught up with the leader."""
    return replace(parts, core=replace(parts.core, leadership=TrustingLeader))
