"""A follower that supports whoever asks."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.roles import Leader
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class DisloyalFollower(Votes):
    """Looks at the candidate's log, and not at its own leader."""

    def _grants_pre_vote(self, *, up_to_date: bool) -> bool:
        return up_to_date and not isinstance(self._state.role, Leader)


@mutant(
    "disloyal-pre-vote",
    breaks=("S32", "L3"),
    source="KIP-996 (a follower in touch with its leader rejects pre-votes)",
    scenario=Scenario(
        faults=(fault("partition-bridge", 1, 4, target="follower"),),
        time_limit_s=30,
        rate_hz=1,
        settings={"metadata.max.idle.interval.ms": "0"},
    ),
)
def disloyal_pre_vote(parts: NodeParts) -> NodeParts:
    """A follower that has fetched from its leader grants pre-votes nevertheless."""
    return replace(parts, core=replace(parts.core, votes=DisloyalFollower))
