"""Voters that all want to be the next leader at once."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.succession import Succession
from node.core.types import ReplicaKey
from node.driver.parts import NodeParts
from node.mutants import mutant


class Usurper(Succession):
    """Does not look for its place among the successors."""

    def _succession_delay_ms(self, preferred: tuple[ReplicaKey, ...]) -> int:
        return super()._succession_delay_ms((self._state.config.key, *preferred))


@mutant(
    "unordered-succession",
    breaks=("L9",),
    source="ours: KIP-595 has the most advanced voter stand first when a leader resigns",
    scenario=Scenario(
        faults=(fault("stop", 1, 1, target="leader"),),
        time_limit_s=3.0,
    ),
)
def unordered_succession(parts: NodeParts) -> NodeParts:
    """Every voter stands at once when its leader resigns, whoever should be the first."""
    return replace(parts, core=replace(parts.core, succession=Usurper))
