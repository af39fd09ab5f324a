"""A controller that trusts who was eligible before the feature was switched off."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.driver.parts import NodeParts
from node.metadata.schemas import ClearElrRecord, MetadataRecord, PartitionChangeRecord
from node.mutants import mutant

_OF_ELRS = (ClearElrRecord, PartitionChangeRecord)


class TrustingOperation(Operation):
    """Leaves ELRs as they are where the first thing wanted is that they are cleared."""

    def add(self, *records: MetadataRecord) -> None:
        """Take in all others."""
        if records and isinstance(records[0], ClearElrRecord):  # with a minimum its setting is
            records = tuple([each for each in records if not isinstance(each, _OF_ELRS)])
        super().add(*records)


class TrustingController(QuorumController):
    """Switches eligible leader replicas on, and looks at nobody who is one."""

    operation_type = TrustingOperation


@mutant(
    "stale-eligible",
    breaks=("C13",),
    source="ours: Apache Kafka does so (docs/findings.md)",
    scenario=Scenario(
        seeds=(6, 37, 1), workload="levels", rate_hz=30, concurrency=5, time_limit_s=20
    ),
)
def stale_eligible(parts: NodeParts) -> NodeParts:
    """The controller keeps old eligible leaders when the feature is switched on again."""
    return replace(parts, controller=TrustingController)
