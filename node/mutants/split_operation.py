"""A controller whose operations are written record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.messages import Records
from node.driver.controller_work import ControllerWork
from node.driver.held import HeldWrite
from node.driver.parts import NodeParts
from node.mutants import mutant


class SplittingWork(ControllerWork):
    """Gives each record a batch of its own."""

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Append the records one by one."""
        each = [Records(1, (record,)) for entry in entries for record in entry.payload]
        super().propose(each, write)


@mutant(
    "split-operation",
    breaks=("S19", "S18"),
    source="KAFKA-12376: the records of an operation were not appended atomically",
    scenario=Scenario(
        workload="topics", rate_hz=20.0, faults=(fault("power", 1, 0.5, target="leader"),)
    ),
)
def split_operation(parts: NodeParts) -> NodeParts:
    """The records of one operation become batches of their own, so half of it can survive."""
    return replace(parts, work=SplittingWork)
