"""A leader that does not write down that it leads."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.role_changes import RoleChanges
from node.core.types import ElectionState
from node.driver.parts import NodeParts
from node.mutants import mutant


class UnwrittenChanges(RoleChanges):
    """Leaves its vote for itself on the disk when it has won."""

    def persist(self, election: ElectionState) -> None:
        """Write all but a leadership of one's own."""
        if election.leader_id != self._state.config.key.id:
            super().persist(election)


@mutant(
    "unwritten-lead",
    breaks=("S26",),
    source="ours: QuorumState.transitionToLeader writes the leader before the epoch's first record",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def unwritten_lead(parts: NodeParts) -> NodeParts:
    """A leader that restarts is a candidate of the epoch that it led, and may win it again."""
    return replace(parts, core=replace(parts.core, roles=UnwrittenChanges))
