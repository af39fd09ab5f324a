"""A controller that takes each broker which comes back for one that stopped in good order."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.broker_operations import BrokerRegistrationReply, BrokerRegistrationRequest
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustingRegistrar(QuorumController):
    """Never hears that a broker has died."""

    def register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int
    ) -> ControllerResult[BrokerRegistrationReply]:
        """Put the epoch of the incarnation before where the request has none."""
        known = self.image.brokers.get(request.broker_id)
        if known is not None and known.incarnation != request.incarnation_id:
            request = replace(request, previous_broker_epoch=known.epoch)
        return super().register_broker(request, now_ms)


@mutant(
    "trusted-reboot",
    breaks=("C13",),
    source="KIP-966 (a replica that had an unclean shutdown leaves the ELR and the ISR)",
    scenario=Scenario(seeds=(1, 2, 3), workload="elr", rate_hz=30, concurrency=5),
)
def trusted_reboot(parts: NodeParts) -> NodeParts:
    """A broker that died, and may have lost messages, stays eligible."""
    return replace(parts, controller=TrustingRegistrar)
