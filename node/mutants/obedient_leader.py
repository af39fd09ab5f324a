"""A replica that believes every Fetch."""

from __future__ import annotations

from dataclasses import replace

from node.core.messages import Error
from node.core.replica import Replica
from node.core.state import EPOCH_MAX
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario


class Obedient(Replica):
    """Goes to the epoch that a request for its leader names."""

    def _check_leader_only(self, epoch: int) -> Error:
        if self.epoch < epoch <= EPOCH_MAX:
            self._become_unattached(epoch, "request of a newer epoch")
        return super()._check_leader_only(epoch)


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
    return replace(parts, replica=Obedient)
