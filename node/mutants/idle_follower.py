"""A follower that applies nothing."""

from __future__ import annotations

from dataclasses import replace

from node.broker.loader import MetadataLoader
from node.driver.node import Node
from node.driver.parts import NodeParts
from node.driver.state_machine import StateMachine
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class SkippingMachine(StateMachine):
    """Can be told to take all that is committed for applied."""

    def skip(self) -> None:
        """Move the applied offset, and nothing else."""
        if self._restoring is None and self.is_behind:
            self.applied = self.committed
            assert isinstance(self.loader, SkippingLoader)  # noqa: S101 - see below
            self.loader.skip_to(self.committed)


class SkippingLoader(MetadataLoader):
    """Goes on where the machine does."""

    def skip_to(self, offset: int) -> None:
        """The next batch begins there."""
        self._next_offset = offset
        self._stand_at(self.provenance._replace(offset=offset - 1))


class IdleFollower(Node):
    """Leaves the work to the leader, until it is the leader."""

    def _apply(self) -> None:
        if self.config.is_controller and not self.replica.is_leader:
            assert isinstance(self.machine, SkippingMachine)  # noqa: S101 - see below
            self.machine.skip()
        super()._apply()


@mutant(
    "idle-follower",
    breaks=("S20", "C8", "S17", "linearizability"),
    source="redisraft #14 (followers hold no applied state that is of use after a failover)",
    scenario=Scenario(faults=(fault("kill", 2, 2, target="leader"),)),
)
def idle_follower(parts: NodeParts) -> NodeParts:
    """A follower takes committed records for applied, so a failover finds no state."""
    return replace(parts, node=IdleFollower, machine=SkippingMachine, loader=SkippingLoader)
