"""A controller that takes ISRs from leaders that have not seen the last one."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.long_operations import LongOperations
from node.controller.operations import ControllerResult
from node.controller.overlay.state import Overlay
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionReply,
    AlterPartitionRequest,
)
from node.controller.slices import Slices
from node.driver.parts import NodeParts
from node.mutants import mutant


class ForgivingOperations(LongOperations):
    """Checks the leader epoch of AlterPartition, not the partition epoch."""

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> Slices[ControllerResult[AlterPartitionReply]]:
        """Take each partition as it is now for what the leader had seen."""
        topics = {
            topic_id: [_as_seen_now(self._ctx.overlay, topic_id, row) for row in rows]
            for topic_id, rows in request.topics.items()
        }
        return super().alter_partition(replace(request, topics=topics))


class ForgivingController(QuorumController):
    """Takes ISRs from leaders that have not seen the last one."""

    long_type = ForgivingOperations


def _as_seen_now(overlay: Overlay, topic_id: UUID, row: AlterPartitionData) -> AlterPartitionData:
    now = overlay.partition(topic_id, row.partition_index)
    if now is None or row.partition_epoch > now.partition_epoch:
        return row
    return replace(row, partition_epoch=now.partition_epoch)


@mutant(
    "overwritten-isr",
    breaks=("C5",),
    source="KIP-497 (an ISR from before the last change must not overwrite it)",
    scenario=Scenario(
        workload="isr",
        rate_hz=40,
        concurrency=5,
        time_limit_s=3,
        settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def overwritten_isr(parts: NodeParts) -> NodeParts:
    """AlterPartition is no compare-and-set: the partition epoch is not compared."""
    return replace(parts, controller=ForgivingController)
