"""A leader that needs nobody."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.driver.parts import NodeParts
from node.mutants import mutant


class LastingLeader(Leadership):
    """Does not mind that nobody fetches."""

    def _check_quorum_deadline(self) -> int | None:
        return None


@mutant(
    "no-check-quorum",
    breaks=("L4", "S34"),
    source="KAFKA-15489: a leader cut off from the others led on",
    scenario=Scenario(time_limit_s=9.0, faults=(fault("partition-isolate-leader", 1, 6),)),
)
def no_check_quorum(parts: NodeParts) -> NodeParts:
    """A leader from which no majority fetches never resigns."""
    return replace(parts, core=replace(parts.core, leadership=LastingLeader))
