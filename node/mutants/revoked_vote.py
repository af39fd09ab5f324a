"""A voter that takes its vote back when an election comes to nothing."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.core.roles import Prospective
from node.driver.parts import NodeParts
from node.mutants import mutant


class RevokedVote(Elections):
    """Goes back to its old epoch as if it had not voted in it."""

    def _give_up_pre_vote(self, role: Prospective, why: str) -> None:
        role.voted = None
        super()._give_up_pre_vote(role, why)


@mutant(
    "revoked-vote",
    breaks=("S3", "S2"),
    source="ours: KIP-996 keeps the vote of an epoch when a Prospective falls back",
    scenario=Scenario(
        seeds=(1, 2, 3),
        faults=(fault("partition-one-way", 1, 3, target="follower", direction="deaf"),),
    ),
)
def revoked_vote(parts: NodeParts) -> NodeParts:
    """A Prospective that falls back in its epoch forgets the vote that it gave in it."""
    return replace(parts, core=replace(parts.core, elections=RevokedVote))
