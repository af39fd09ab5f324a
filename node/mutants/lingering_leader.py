"""A leader that does not notice its own removal."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class LingeringLeader(Leadership):
    """Never looks whether the voters are others by now."""

    def _is_removed(self, role: Leader) -> bool:
        del role
        return False


@mutant(
    "lingering-leader",
    breaks=("S30",),
    source="Apache Kafka 4.1.2 (a removal that took longer than its request is not followed up; "
    "docs/findings.md)",
    scenario=Scenario(
        faults=(fault("membership", 2, 1, target="leader"),),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def lingering_leader(parts: NodeParts) -> NodeParts:
    """A leader that was removed from the voters leads on when that is committed."""
    return replace(parts, core=replace(parts.core, leadership=LingeringLeader))
