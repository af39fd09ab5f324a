"""A controller that moves the offset of a shutdown with each heartbeat of the broker."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.broker_operations import BrokerHeartbeatReply, BrokerHeartbeatRequest
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult, PendingWrite
from node.driver.parts import NodeParts
from node.mutants import mutant


class InsatiableController(QuorumController):
    """Begins the shutdown of a broker anew whenever it hears of it."""

    def heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatReply]:
        """Move the offset that the shutdown waits for to the end of what is committed now."""
        heart = self._ctx.sessions.heart(request.broker_id)
        if heart.shutdown is not None and heart.shutdown.last_offset is not None:
            heart.shutdown = PendingWrite(0, self._ctx.overlay.image.end_offset - 1)
        return super().heartbeat(request)


@mutant(
    "moving-shutdown",
    breaks=("L10", "C7"),
    source="KAFKA-14292: the offset that a controlled shutdown waits for moved at each heartbeat",
    scenario=Scenario(
        observers=2,
        workload="topics",
        faults=(fault("stop", 2, 8, target="observer"),),
        time_limit_s=11,
        rate_hz=20.0,
        concurrency=6,
        settings={
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "200",
            "metadata.max.idle.interval.ms": "50",
        },
    ),
)
def moving_shutdown(parts: NodeParts) -> NodeParts:
    """A stopping broker may go only when all know even what was written while it was stopping."""
    return replace(parts, controller=InsatiableController)
