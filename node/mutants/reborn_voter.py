"""A replica that finds its number in a voter set, and takes itself for that voter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.core.config import ReplicaConfig
from node.core.own_log import OwnLog
from node.core.state import ReplicaState
from node.driver.parts import NodeParts
from node.mutants import mutant

FETCH_BYTES = 1_024  # what is in a log comes to light step by step


class SmallSteps(ReplicaState):
    """Fetches little at a time."""

    def __init__(self, config: ReplicaConfig, *args: Any, **kwargs: Any) -> None:
        little = replace(config, fetch_max_bytes=FETCH_BYTES, fetch_snapshot_max_bytes=FETCH_BYTES)
        super().__init__(little, *args, **kwargs)


class RebornReplica(OwnLog):
    """Does not look which disk the voter of its number had."""

    def _adopt_voters(self, *, revert: bool) -> None:
        super()._adopt_voters(revert=revert)
        self.is_voter = self.config.key.id in self.voters.voters


@mutant(
    "reborn-voter",
    breaks=("S29", "S33", "S1"),
    source="openraft #2002 (an id used again with an empty log replays old members, and elects)",
    scenario=Scenario(
        seeds=(1, 3),
        faults=(
            fault("slow-links", 3, 5, target="all", way="both", delay_ms=100, jitter_ms=0),
            fault("disk-wipe", 3.2, 0.8),
            fault("partition-isolate-leader", 4.6, 3),
        ),
        rate_hz=50,
        settings={"krucible.quorum": "dynamic"},
    ),
)
def reborn_voter(parts: NodeParts) -> NodeParts:
    """A node with a new, empty disk is the voter that it was, as soon as it reads of that."""
    return replace(parts, core=replace(parts.core, state=SmallSteps, log=RebornReplica))
