"""A controller that answers with a block of producer ids from an old look at its state."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.broker_operations import ProducerIdsReply
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class StaleController(QuorumController):
    """Writes the right records, and tells what is committed without them."""

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[ProducerIdsReply]:
        """Give away what nobody had, as far as is committed yet."""
        committed = self._overlay.image.next_producer_id
        result = super().allocate_producer_ids(broker_id, broker_epoch)
        if result.reply.error:
            return result
        return replace(result, reply=replace(result.reply, producer_id_start=max(committed, 0)))


@mutant(
    "stale-block",
    breaks=("C11",),
    source="KAFKA-15552 (one block of producer ids is given to several brokers)",
    scenario=Scenario(
        workload="producer-ids",
        rate_hz=40,
        concurrency=5,
        time_limit_s=3,
        settings={"controller.quorum.append.linger.ms": "25"},
    ),
)
def stale_block(parts: NodeParts) -> NodeParts:
    """Brokers that ask at the same time are told the same block of producer ids."""
    return replace(parts, controller=StaleController)
