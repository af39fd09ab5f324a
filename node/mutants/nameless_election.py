"""A leader that does not say who has elected it."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.leader.leadership import Leadership
from node.core.messages import ControlRecord, LeaderChange
from node.driver.parts import NodeParts
from node.mutants import mutant


class Nameless(Leadership):
    """Opens its epoch with a LeaderChange that lists no voters."""

    def _opening(self, grants: tuple[int, ...]) -> tuple[ControlRecord, ...]:
        _, *others = super()._opening(grants)
        return (LeaderChange(self._state.config.key.id, (), ()), *others)


@mutant(
    "nameless-election",
    breaks=("S12",),
    source="ours: KIP-595 wants the voters, and those who voted for the leader, in LeaderChange",
    scenario=Scenario(time_limit_s=2.0),
)
def nameless_election(parts: NodeParts) -> NodeParts:
    """The LeaderChange record of an epoch names neither its voters nor who gave a vote."""
    return replace(parts, core=replace(parts.core, leadership=Nameless))
