"""A prospective that forgets whom it followed."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.core.roles import Prospective
from node.driver.parts import NodeParts
from node.mutants import mutant


class LostElections(Elections):
    """Waits without a leader when a pre-vote is lost."""

    def _give_up_pre_vote(self, role: Prospective, why: str) -> None:
        """Stay in the epoch, and know its leader by name only."""
        self._roles.become_unattached(role.epoch, why, role.leader_id)


@mutant(
    "lost-way",
    breaks=("S31",),
    source="ours: KIP-996 has a Prospective that cannot win go back to the leader that it had",
    scenario=Scenario(faults=(fault("partition-isolate-one", 1, 5, target="follower"),)),
)
def lost_way(parts: NodeParts) -> NodeParts:
    """A follower that could not win does not fetch from its leader again until that speaks up."""
    return replace(parts, core=replace(parts.core, elections=LostElections))
