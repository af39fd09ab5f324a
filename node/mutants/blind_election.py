"""A controller that elects brokers without a look at their disks."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.context import Context
from node.controller.controller import QuorumController
from node.driver.parts import NodeParts
from node.metadata.state import PartitionState
from node.mutants import mutant


class BlindContext(Context):
    """Takes each disk for one that works."""

    def directory_online(self, state: PartitionState, broker_id: int) -> bool:
        """Say so of each."""
        del state, broker_id
        return True


class BlindController(QuorumController):
    """Lets a broker lead whose disk has failed, or is gone."""

    context_type = BlindContext


@mutant(
    "blind-election",
    breaks=("C15",),
    source="KIP-858 (a replica on a disk that failed cannot lead)",
    scenario=Scenario(
        seeds=(1, 2, 3), workload="directories", rate_hz=30, concurrency=5, time_limit_s=20
    ),
)
def blind_election(parts: NodeParts) -> NodeParts:
    """A broker is elected for a partition that it has on a disk that failed."""
    return replace(parts, controller=BlindController)
