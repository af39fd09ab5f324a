"""A replica that believes every Fetch."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.fencing import Fencing
from node.core.messages import Error
from node.core.state import EPOCH_MAX
from node.driver.parts import NodeParts
from node.mutants import mutant


class Obedient(Fencing):
    """Goes to the epoch that a request for its leader names."""

    def check_leader_only(self, epoch: int) -> Error:
        """Move to the epoch that is named."""
        if self._state.epoch < epoch <= EPOCH_MAX:
            self._roles.become_unattached(epoch, "request of a newer epoch")
        return super().check_leader_only(epoch)


@mutant(
    "obedient-leader",
    breaks=("S31",),
    source="ours: KIP-595 answers a Fetch of a newer epoch with UNKNOWN_LEADER_EPOCH, and no more",
    scenario=Scenario(
        seeds=(2, 1, 3),
        voters=5,
        observers=1,
        time_limit_s=3.0,
    ),
)
def obedient_leader(parts: NodeParts) -> NodeParts:
    """A Fetch of a newer epoch moves its receiver to that epoch."""
    return replace(parts, core=replace(parts.core, fencing=Obedient))
