"""A candidate that backs off for the same time as all others."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.state import ReplicaState
from node.driver.parts import NodeParts
from node.mutants import mutant


class LockStep(ReplicaState):
    """Stands again after the longest backoff: the cap has cut off all that was random."""

    def random_election_deadline(self) -> int:
        """Give the same time to everybody."""
        return self.now_ms + self.config.election_backoff_max_ms


@mutant(
    "lock-step",
    breaks=("L9", "L1"),
    source="KAFKA-18345: capped backoff made candidates stand at the same moments for ever",
    scenario=Scenario(
        seeds=(1, 2, 3, 4, 5),
        voters=5,
        faults=(fault("kill", 1, 2, target="leader"),),
        time_limit_s=4.0,
        settings={
            "controller.quorum.election.timeout.ms": "200",
            "controller.quorum.election.backoff.max.ms": "200",
        },
    ),
)
def lock_step(parts: NodeParts) -> NodeParts:
    """Elections are tried again after a fixed time instead of a random one."""
    return replace(parts, core=replace(parts.core, state=LockStep))
