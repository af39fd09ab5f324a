"""A controller that lets a broker in while the session of its process before goes on."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.broker_operations import BrokerRegistrationReply, BrokerRegistrationRequest
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class UsurpedController(QuorumController):
    """Takes each session for one that is over, when somebody registers."""

    def register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int
    ) -> ControllerResult[BrokerRegistrationReply]:
        """End the session of the incarnation before."""
        known = self._overlay.broker(request.broker_id)
        if known is not None and known.incarnation != request.incarnation_id:
            self._ctx.sessions.end((known.id, known.epoch))
        return super().register_broker(request, now_ms)


@mutant(
    "usurped-session",
    breaks=("C1",),
    source="KIP-631 (DUPLICATE_BROKER_REGISTRATION while the session of the other goes on)",
    scenario=Scenario(
        observers=1,
        faults=(fault("kill", 4, 0.3, target="observer"),),
        settings={"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "300"},
    ),
)
def usurped_session(parts: NodeParts) -> NodeParts:
    """A broker is registered anew while the session of its process before goes on."""
    return replace(parts, controller=UsurpedController)
