"""A voter that was formatted to be a quorum of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.core.config import ReplicaConfig
from node.core.state import ReplicaState
from node.core.types import ElectionState, VoterSet
from node.driver.parts import NodeParts
from node.mutants import mutant


class StandaloneReplica(ReplicaState):
    """The first node takes itself for the only voter when it comes back."""

    def __init__(
        self, config: ReplicaConfig, election: ElectionState, *args: Any, **kwargs: Any
    ) -> None:
        own = config.voters.voters.get(config.key.id)
        if config.key.id == 1 and election.epoch and own is not None:
            config = replace(config, voters=VoterSet.of(own))
        super().__init__(config, election, *args, **kwargs)


@mutant(
    "standalone-restart",
    breaks=("S1", "S6", "S9", "S28"),
    source="KAFKA-19489: static voters beside a standalone formatting gave two voter sets",
    scenario=Scenario(faults=(fault("kill", 1, 3, target="leader"),)),
)
def standalone_restart(parts: NodeParts) -> NodeParts:
    """One node has a voter set of itself alone, and elects itself beside the others' leader."""
    return replace(parts, core=replace(parts.core, state=StandaloneReplica))
