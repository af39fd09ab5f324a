"""A leader that commits what others wrote by counting."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.replication import Replication
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class EagerLeader(Replication):
    """Does not ask of which epoch the last record is that a majority has."""

    def _may_commit(self, role: Leader, end: int) -> bool:
        del role
        return end > 0


@mutant(
    "old-epoch-commit",
    breaks=("S14",),
    source="logcabin #44 (records of earlier terms are committed by counting; Raft figure 8)",
    scenario=Scenario(faults=(fault("kill", 1, 2, target="leader"),)),
)
def old_epoch_commit(parts: NodeParts) -> NodeParts:
    """The high watermark moves over records of earlier epochs as soon as a majority has them."""
    return replace(parts, core=replace(parts.core, replication=EagerLeader))
