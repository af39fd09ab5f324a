"""A controller whose heartbeats wait behind its work."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.controller import QuorumController
from node.driver.parts import NodeParts
from node.mutants import mutant


class BusyController(QuorumController):
    """Hears of a broker only when there is nothing else to do."""

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Take the contact unless something waits to be committed."""
        return not self.pending and super().contact(broker_id, broker_epoch, now_ms)


@mutant(
    "queued-heartbeats",
    breaks=("C12",),
    source="KAFKA-17793 (heartbeats wait behind a busy event queue until sessions expire)",
    scenario=Scenario(
        observers=2,
        faults=(fault("slow-links", 1, 7, target="all", way="both", delay_ms=20, jitter_ms=0),),
        time_limit_s=10,
        rate_hz=150,
        concurrency=40,
        settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def queued_heartbeats(parts: NodeParts) -> NodeParts:
    """While writes are pending, heartbeats do not prolong the sessions of brokers."""
    return replace(parts, controller=BusyController)
