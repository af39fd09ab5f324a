"""A controller that keeps what it believed when it was active."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.controller import QuorumController
from node.driver.parts import NodeParts
from node.mutants import mutant


class StubbornController(QuorumController):
    """Renounces, but does not go back to what is committed."""

    def renounce(self) -> None:
        """Stop being active, with uncommitted changes still in mind."""
        self.epoch = None
        self._sessions.clear()
        self._collisions.forget()
        self._pending.clear()
        self._unappended.clear()


@mutant(
    "kept-overlay",
    breaks=("S21", "C8"),
    source="KAFKA-13100: no committed state to go back to when leadership was soon lost",
    scenario=Scenario(
        workload="topics",
        rate_hz=40.0,
        concurrency=12,
        time_limit_s=20.0,
        faults=tuple(fault("partition-isolate-leader", 1 + 3 * i, 2) for i in range(6)),
    ),
)
def kept_overlay(parts: NodeParts) -> NodeParts:
    """A controller that loses its leadership still believes in what it had not committed."""
    return replace(parts, controller=StubbornController)
