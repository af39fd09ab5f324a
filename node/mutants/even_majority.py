"""A quorum that half of its voters make."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.core.leader.replication import Replication
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class HalfElections(Elections):
    """Rounds a majority up where it should be more than half."""

    def _has_majority(self, granted: set[int]) -> bool:
        return 2 * len(granted) >= len(self._state.log.voters)


class HalfReplication(Replication):
    """Commits what half of the voters have."""

    def _quorum_end_offset(self, role: Leader) -> int:
        ends = role.progress.end_offsets_descending()
        return ends[(len(ends) - 1) // 2]


@mutant(
    "even-majority",
    breaks=("S1", "S6", "S9", "S13"),
    source="redisraft #17 and #28 (split brain after a change of the members)",
    scenario=Scenario(voters=4, faults=(fault("partition-halves", 1, 3, leader="minority"),)),
)
def even_majority(parts: NodeParts) -> NodeParts:
    """Half of the voters are a quorum, as it is right for an odd number of them."""
    return replace(
        parts, core=replace(parts.core, elections=HalfElections, replication=HalfReplication)
    )
