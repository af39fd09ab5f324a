"""A leader that counts itself though it is no voter."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class SelfCountingLeader(Leadership):
    """Takes itself for a voter when it counts who has fetched."""

    def heard_from(self, role: Leader, voter_id: int) -> None:
        """Count as if this leader were a voter."""
        was, self._state.log.is_voter = self._state.log.is_voter, True
        super().heard_from(role, voter_id)
        self._state.log.is_voter = was


@mutant(
    "removed-leader-counts",
    breaks=("S29", "L4"),
    source="KAFKA-16531: check quorum took the leader for a voter",
    scenario=Scenario(
        rate_hz=20.0,
        faults=(fault("membership", 2, 1, target="leader"),),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def removed_leader_counts(parts: NodeParts) -> NodeParts:
    """A leader that is being removed still counts itself as one of those that keep it leader."""
    return replace(parts, core=replace(parts.core, leadership=SelfCountingLeader))
