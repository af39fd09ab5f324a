"""A controller that elects nobody where nobody leads."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.driver.parts import NodeParts
from node.metadata.image import NO_LEADER
from node.metadata.schemas import MetadataRecord, PartitionChangeRecord
from node.mutants import mutant


class LonelyOperation(Operation):
    """Leaves out the election of a leader where there was none."""

    def add(self, *records: MetadataRecord) -> None:
        """Take in all others."""
        super().add(*[each for each in records if not self._elects(each)])

    def _elects(self, record: MetadataRecord) -> bool:
        if not isinstance(record, PartitionChangeRecord) or record.topic_id is None:
            return False
        now = self.overlay.partition(record.topic_id, record.partition_id)
        return now is not None and now.leader == NO_LEADER and record.leader >= 0


class LonelyController(QuorumController):
    """Never finds a leader for a partition that has lost its own."""

    operation_type = LonelyOperation


@mutant(
    "lonely-partition",
    breaks=("C14",),
    source="KIP-631 (a broker that comes back leads what nobody leads)",
    scenario=Scenario(seeds=(1, 2, 3), workload="elr", rate_hz=30, concurrency=5, time_limit_s=20),
)
def lonely_partition(parts: NodeParts) -> NodeParts:
    """A partition that has lost its leader never gets one again."""
    return replace(parts, controller=LonelyController)
