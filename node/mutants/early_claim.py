"""A controller that is active before it knows anything."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.controller_work import ControllerWork
from node.driver.parts import NodeParts
from node.mutants import mutant


class EagerWork(ControllerWork):
    """Claims as soon as the election is won."""

    def lead(self, epoch: int, epoch_start: int) -> None:
        """Claim before anything that is not applied."""
        super().lead(epoch, min(epoch_start, self.machine.applied - 1))


@mutant(
    "early-claim",
    breaks=("S21",),
    source="KAFKA-15345: leadership was announced before the listener had passed the epoch's start",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def early_claim(parts: NodeParts) -> NodeParts:
    """The controller becomes active before the records of earlier reigns have been applied."""
    return replace(parts, work=EagerWork)
