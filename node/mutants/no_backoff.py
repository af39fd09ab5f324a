"""A node that asks again at once when it was refused."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.state import ReplicaState
from node.driver.parts import NodeParts
from node.mutants import mutant


class NoBackoff(ReplicaState):
    """Makes no pause after a request that failed."""

    def back_off(self, peer: int) -> None:
        """Make no pause."""
        del peer


@mutant(
    "no-backoff",
    breaks=("L12",),
    source="ours: controller.quorum.retry.backoff.ms, a pause before a request is repeated",
    scenario=Scenario(
        voters=2,
        observers=1,
        faults=(fault("kill", 1, 4, target="leader"),),
    ),
)
def no_backoff(parts: NodeParts) -> NodeParts:
    """A request that failed is repeated at once, as fast as it can fail."""
    return replace(parts, core=replace(parts.core, state=NoBackoff))
