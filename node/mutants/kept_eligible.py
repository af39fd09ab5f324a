"""A controller that moves the minimum of an ISR and forgets no eligible leader."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.driver.parts import NodeParts
from node.metadata.schemas import ClearElrRecord, MetadataRecord
from node.mutants import mutant


class ForgetlessOperation(Operation):
    """Leaves out the record that clears ELRs."""

    def add(self, *records: MetadataRecord) -> None:
        """Take in all others."""
        super().add(*[each for each in records if not isinstance(each, ClearElrRecord)])


class ForgetlessController(QuorumController):
    """Leaves ELRs as they are when min.insync.replicas changes."""

    operation_type = ForgetlessOperation


@mutant(
    "kept-eligible",
    breaks=("C13",),
    source="KIP-966 (the ELR is cleared when min.insync.replicas changes)",
    scenario=Scenario(seeds=(1, 2, 3), workload="elr", rate_hz=30, concurrency=5),
)
def kept_eligible(parts: NodeParts) -> NodeParts:
    """Replicas stay eligible when a lower minimum lets the ISR acknowledge without them."""
    return replace(parts, controller=ForgetlessController)
