"""A voter that stands without waiting for pre-votes."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.core.roles import Prospective
from node.driver.parts import NodeParts
from node.mutants import mutant


class UnaskedElections(Elections):
    """Takes its own pre-vote for a majority."""

    def poll_prospective(self, role: Prospective) -> None:
        """Stand at once."""
        del role
        self._roles.become_candidate("pre-vote won")


@mutant(
    "unasked-election",
    breaks=("S32", "L3"),
    source="ours: KIP-996 lets a voter stand only when a majority would support it",
    scenario=Scenario(
        faults=(
            fault("kill", 1, 1, target="leader"),
            fault("partition-isolate-one", 3, 4, target="follower"),
        ),
    ),
)
def unasked_election(parts: NodeParts) -> NodeParts:
    """A voter that hears of no leader raises the epoch without asking whether it could win."""
    return replace(parts, core=replace(parts.core, elections=UnaskedElections))
