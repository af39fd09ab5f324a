"""A follower that does not wait for its fetch timeout."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.role_changes import RoleChanges
from node.core.roles import Follower
from node.core.types import Endpoint, ReplicaKey
from node.driver.parts import NodeParts
from node.mutants import mutant


class ImpatientChanges(RoleChanges):
    """Begins a follower's wait as if much of it were over."""

    def follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, voted: ReplicaKey | None
    ) -> Follower:
        """Leave it a third of the time to hear of its leader."""
        role = super().follower(epoch, leader_id, endpoint, voted)
        role.deadline_ms -= 2 * self._state.config.fetch_timeout_ms // 3
        return role


@mutant(
    "impatient-follower",
    breaks=("L9",),
    source="ours: KIP-595 gives a new leader a fetch timeout before its followers look for another",
    scenario=Scenario(
        faults=(
            fault("slow-links", 1, 6, target="follower", way="both", delay_ms=350, jitter_ms=0),
            fault("kill", 2, 1, target="leader"),
        ),
        settings={
            "controller.quorum.fetch.timeout.ms": "2000",
            "controller.quorum.election.timeout.ms": "1000",
        },
    ),
)
def impatient_follower(parts: NodeParts) -> NodeParts:
    """A follower that hears nothing of a new leader stands after a third of its fetch timeout."""
    return replace(parts, core=replace(parts.core, roles=ImpatientChanges))
