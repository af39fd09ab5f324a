"""A leader that answers writes before they are committed."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.controller_work import ControllerWork
from node.driver.held import HeldWrite
from node.driver.parts import NodeParts
from node.mutants import mutant


class HastyWork(ControllerWork):
    """Answers as soon as the records are in its own log."""

    def _await_commit(self, write: HeldWrite) -> None:
        self._acknowledge(write)


@mutant(
    "ack-before-commit",
    breaks=("S17", "linearizability"),
    source="etcd #14143 (acknowledged before durable); KRaft's deferred event queue left out",
    scenario=Scenario(
        faults=(fault("partition-isolate-leader", 1, 3), fault("kill", 4.5, 0.5, target="leader")),
    ),
)
def ack_before_commit(parts: NodeParts) -> NodeParts:
    """Writes are acknowledged when appended by the leader, not when the high watermark is past."""
    return replace(parts, work=HastyWork)
