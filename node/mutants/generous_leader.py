"""A leader that supports whoever asks."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.roles import Leader
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class GenerousLeader(Votes):
    """Grants pre-votes by the candidate's log alone while it leads."""

    def _grants_pre_vote(self, *, up_to_date: bool) -> bool:
        if isinstance(self._state.role, Leader):
            return up_to_date
        return super()._grants_pre_vote(up_to_date=up_to_date)


@mutant(
    "generous-leader",
    breaks=("S38",),
    source="KIP-996; LeaderState.canGrantVote (a leader grants no pre-vote)",
    scenario=Scenario(
        faults=(fault("partition-one-way", 1, 4, target="follower", direction="deaf"),),
        rate_hz=0.2,
        settings={"metadata.max.idle.interval.ms": "0"},
    ),
)
def generous_leader(parts: NodeParts) -> NodeParts:
    """A leader grants a pre-vote to a voter whose log is as new as its own."""
    return replace(parts, core=replace(parts.core, votes=GenerousLeader))
