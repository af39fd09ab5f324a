"""A controller that does not look which incarnation of a broker joins an ISR."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.long_operations import LongOperations
from node.controller.operations import ControllerResult
from node.controller.partition_operations import (
    AlterPartitionReply,
    AlterPartitionRequest,
    IsrMember,
)
from node.controller.slices import Slices
from node.driver.parts import NodeParts
from node.mutants import mutant


class EpochlessOperations(LongOperations):
    """Takes AlterPartition as it was before it had the epochs of members."""

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> Slices[ControllerResult[AlterPartitionReply]]:
        """Leave the epochs out."""
        topics = {
            topic_id: [
                replace(row, new_isr=tuple([IsrMember(m.broker_id) for m in row.new_isr]))
                for row in rows
            ]
            for topic_id, rows in request.topics.items()
        }
        return super().alter_partition(replace(request, topics=topics))


class EpochlessController(QuorumController):
    """Does not look which incarnation a member is."""

    long_type = EpochlessOperations


@mutant(
    "epochless-members",
    breaks=("C5",),
    source="KAFKA-14617, KIP-903 (AlterPartition readmits a replica that restarted and lost data)",
    scenario=Scenario(
        workload="isr",
        rate_hz=40,
        concurrency=5,
        time_limit_s=6,
        settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def epochless_members(parts: NodeParts) -> NodeParts:
    """A restarted broker joins an ISR by the broker epoch that it had before."""
    return replace(parts, controller=EpochlessController)
