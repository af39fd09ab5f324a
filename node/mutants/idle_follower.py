"""A follower that applies nothing."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.controller_work import ControllerWork
from node.driver.parts import NodeParts
from node.driver.state_machine import StateMachine
from node.mutants import mutant


class IdleFollower(ControllerWork):
    """Leaves the work to the leader, until it is the leader."""

    def _apply(self) -> None:
        if self.config.is_controller and not self.replica.is_leader:
            _skip(self.machine)
        super()._apply()


def _skip(machine: StateMachine) -> None:
    """Move the applied offset, and nothing else."""
    if machine._restoring is None and machine.is_behind:  # noqa: SLF001 - a bug knows no manners
        loader = machine.loader
        machine.applied = machine.committed
        loader._next_offset = machine.committed  # noqa: SLF001
        loader._stand_at(loader.provenance._replace(offset=machine.committed - 1))  # noqa: SLF001


@mutant(
    "idle-follower",
    breaks=("S20", "C8", "S17", "linearizability"),
    source="redisraft #14 (followers hold no applied state that is of use after a failover)",
    scenario=Scenario(faults=(fault("kill", 2, 2, target="leader"),)),
)
def idle_follower(parts: NodeParts) -> NodeParts:
    """A follower takes committed records for applied, so a failover finds no state."""
    return replace(parts, work=IdleFollower)
