"""A voter that supports nobody while it asks for support itself."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.roles import Prospective
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class ProudVotes(Votes):
    """Grants no pre-vote as a Prospective."""

    def _grants_pre_vote(self, *, up_to_date: bool) -> bool:
        proud = isinstance(self._state.role, Prospective)
        return not proud and super()._grants_pre_vote(up_to_date=up_to_date)


@mutant(
    "proud-prospective",
    breaks=("S38",),
    source="ours: KIP-996 has a Prospective grant pre-votes, or two of them wait for each other",
    scenario=Scenario(faults=(fault("kill", 1, 3, target="leader"),)),
)
def proud_prospective(parts: NodeParts) -> NodeParts:
    """A Prospective refuses all pre-votes, whatever log the other one has."""
    return replace(parts, core=replace(parts.core, votes=ProudVotes))
