"""A controller that never looks whether its brokers still live."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustfulController(QuorumController):
    """Never ends the session of a broker that is silent."""

    def expire_sessions(self, now_ms: int) -> ControllerResult[int | None]:
        """Fence nobody, as if all had been heard of just now."""
        del now_ms
        return super().expire_sessions(0)


@mutant(
    "deathless-session",
    breaks=("C12",),
    source="KIP-631 (a broker that is silent for a session is fenced)",
    scenario=Scenario(
        seeds=(1, 2),
        workload="brokers",
        rate_hz=10,
        time_limit_s=12,
        settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def deathless_session(parts: NodeParts) -> NodeParts:
    """The sessions of brokers never end."""
    return replace(parts, controller=TrustfulController)
