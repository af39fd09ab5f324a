"""A controller whose clock for sessions is ahead of that for heartbeats."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class HurriedController(QuorumController):
    """Judges sessions by a clock that is ahead."""

    def expire_sessions(self, now_ms: int) -> ControllerResult[int | None]:
        """Fence who would be silent for a session half a session from now."""
        return super().expire_sessions(now_ms + self.config.session_timeout_ms // 2)


@mutant(
    "hasty-session",
    breaks=("C12",),
    source="KIP-631 (a broker is fenced after a session of silence, not before)",
    scenario=Scenario(
        workload="brokers",
        rate_hz=10,
        time_limit_s=10,
        settings={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"},
    ),
)
def hasty_session(parts: NodeParts) -> NodeParts:
    """A broker is fenced after half a session of silence."""
    return replace(parts, controller=HurriedController)
