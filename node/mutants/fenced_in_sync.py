"""A controller that takes every registered broker for one in service."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.controller import QuorumController
from node.controller.overlay.state import Overlay
from node.driver.parts import NodeParts
from node.mutants import mutant


class BlindOverlay(Overlay):
    """Does not look whether a broker is fenced."""

    def is_active(self, broker_id: int) -> bool:
        """Tell whether the broker is registered."""
        return self.broker(broker_id) is not None


class BlindController(QuorumController):
    """Works on such an overlay."""

    overlay_type = BlindOverlay


@mutant(
    "fenced-in-sync",
    breaks=("C2",),
    source="KAFKA-13916, KIP-841 (a fenced replica may join the ISR)",
    scenario=Scenario(
        workload="topics",
        observers=2,
        faults=(fault("kill", 1, 4, target="observer"),),
        rate_hz=20,
        settings={
            "broker.session.timeout.ms": "1000",
            "broker.heartbeat.interval.ms": "200",
            "default.replication.factor": "2",
        },
    ),
)
def fenced_in_sync(parts: NodeParts) -> NodeParts:
    """Fenced brokers are in sync, and lead, like any other."""
    return replace(parts, controller=BlindController)
