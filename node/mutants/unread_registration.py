"""A controller that lets a broker in before it has read its own registration."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.broker_operations import BrokerHeartbeatReply, BrokerHeartbeatRequest
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class HospitableController(QuorumController):
    """Takes each broker for one that has read all metadata."""

    def heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatReply]:
        """Answer as if the broker were at the end of the log."""
        end = self._ctx.overlay.image.end_offset
        return super().heartbeat(replace(request, current_metadata_offset=end))


@mutant(
    "unread-registration",
    breaks=("C6",),
    source="KIP-631 (a broker is unfenced once it has read the metadata up to its registration)",
    scenario=Scenario(
        workload="brokers",
        time_limit_s=10,
        settings={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def unread_registration(parts: NodeParts) -> NodeParts:
    """A broker is unfenced at its first heartbeat, wherever it is in the metadata log."""
    return replace(parts, controller=HospitableController)
