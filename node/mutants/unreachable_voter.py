"""A voter that tells others where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.core.config import ReplicaConfig
from node.core.state import ReplicaState
from node.core.types import ElectionState, Endpoint
from node.driver.parts import NodeParts
from node.mutants import mutant


class MisplacedReplica(ReplicaState):
    """Puts an endpoint into the voter set at which nobody listens."""

    def __init__(
        self, config: ReplicaConfig, election: ElectionState, *args: Any, **kwargs: Any
    ) -> None:
        wrong = tuple(
            replace(each, endpoint=Endpoint(each.endpoint.host, 1)) for each in config.listeners
        )
        super().__init__(replace(config, listeners=wrong), election, *args, **kwargs)


@mutant(
    "unreachable-voter",
    breaks=("L1", "L6"),
    source="KAFKA-20661: an endpoint that nobody could reach was committed to the voter set",
    scenario=Scenario(
        time_limit_s=12.0,
        faults=(fault("kill", 8, 2, target="leader"),),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def unreachable_voter(parts: NodeParts) -> NodeParts:
    """Voters update their entry in the voter set with an endpoint that nobody can reach."""
    return replace(parts, core=replace(parts.core, state=MisplacedReplica))
