"""A voter that asks for pre-votes for ever."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.core.roles import Prospective
from node.driver.parts import NodeParts
from node.mutants import mutant


class StubbornProspective(Elections):
    """Begins the next round of pre-votes where it should go back to its leader."""

    def _give_up_pre_vote(self, role: Prospective, why: str) -> None:  # noqa: ARG002 - the parent's
        if role.deadline_ms <= self._state.now_ms:
            role.deadline_ms = self._state.random_election_deadline()
            role.tally = self._roles.new_tally()


@mutant(
    "stuck-prospective",
    breaks=("L7", "L8"),
    source="KIP-996 TLA+ (Prospective never falls back to Follower when it cannot win)",
    scenario=Scenario(
        faults=(fault("partition-one-way", 1, 2, target="follower", direction="deaf"),)
    ),
)
def stuck_prospective(parts: NodeParts) -> NodeParts:
    """A Prospective that loses its pre-vote asks again instead of following the leader."""
    return replace(parts, core=replace(parts.core, elections=StubbornProspective))
