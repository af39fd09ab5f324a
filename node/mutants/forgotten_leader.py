"""A voter that restarts without the leader that its disk tells of."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.driver.parts import NodeParts
from node.mutants import mutant


class ForgetfulElections(Elections):
    """Begins as if nobody led yet."""

    def take_initial_role(self) -> None:
        """Leave the leader of the epoch out of what was found."""
        found = self._state.election
        if found.leader_id is not None and found.leader_id != self._state.config.key.id:
            self._start_unattached(found.epoch, None, found.voted, "start")
        else:
            super().take_initial_role()


@mutant(
    "forgotten-leader",
    breaks=("S31",),
    source="ours: KIP-595 keeps the leader of the epoch on disk, so that nobody else gets a vote",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="follower"),)),
)
def forgotten_leader(parts: NodeParts) -> NodeParts:
    """A voter that restarts forgets who leads its epoch, and may vote in it."""
    return replace(parts, core=replace(parts.core, elections=ForgetfulElections))
