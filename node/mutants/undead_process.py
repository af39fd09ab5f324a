"""A process that outlives its node."""

from __future__ import annotations

import logging
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.driver.pump import Pump
from node.mutants import mutant

log = logging.getLogger("krucible.node")


class UndeadPump(Pump):
    """Halts at a fatal error, and lets the process go on listening."""

    def fail(self, error: BaseException) -> None:
        """Halt and log the error, but do not end the process."""
        if not self.stopped:
            self.halt()
            log.warning("the node has ended: %s", error)


@mutant(
    "undead-process",
    breaks=("L1", "L2", "L8"),
    source="KAFKA-14644: the process survived the death of its raft thread",
    scenario=Scenario(faults=(fault("disk-io-error", 2, 1, target="follower", operation="fsync"),)),
)
def undead_process(parts: NodeParts) -> NodeParts:
    """After an error of its disk a node does nothing any more, but its process stays."""
    return replace(parts, pump=UndeadPump)
