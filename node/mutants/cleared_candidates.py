"""A controller that forgets who may lead what nobody leads, when the minimum of an ISR changes."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.driver.parts import NodeParts
from node.metadata.schemas import ClearElrRecord, MetadataRecord, PartitionChangeRecord
from node.mutants import mutant


class ForgetfulOperation(Operation):
    """Leaves out who stays eligible beside the record that clears ELRs."""

    def add(self, *records: MetadataRecord) -> None:
        """Take in all others."""
        if any(isinstance(each, ClearElrRecord) for each in records):
            records = tuple([r for r in records if not isinstance(r, PartitionChangeRecord)])
        super().add(*records)


class ForgetfulController(QuorumController):
    """Clears the ELRs of partitions that nobody leads, too."""

    operation_type = ForgetfulOperation


@mutant(
    "cleared-candidates",
    breaks=("C14",),
    source="ours: Apache Kafka clears them (docs/findings.md)",
    scenario=Scenario(
        seeds=(10, 27),
        observers=0,
        workload="elr",
        rate_hz=30,
        concurrency=5,
        time_limit_s=20,
    ),
)
def cleared_candidates(parts: NodeParts) -> NodeParts:
    """A change of min.insync.replicas leaves partitions that nobody may ever lead."""
    return replace(parts, controller=ForgetfulController)
