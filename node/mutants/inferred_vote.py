"""A node that believes to have voted for whom it followed."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import ElectionState, ReplicaKey
from node.driver.parts import NodeParts
from node.log.quorum_state import ElectionStateStore
from node.mutants import mutant


class InferringStore(ElectionStateStore):
    """Fills in the vote that is not there."""

    def load(self) -> ElectionState | None:
        """Read the file, and take its leader for the one that got the vote."""
        state = super().load()
        if state is None or state.voted is not None or state.leader_id is None:
            return state
        return replace(state, voted=ReplicaKey(state.leader_id, None))


@mutant(
    "inferred-vote",
    breaks=("S37",),
    source="ours: a start makes up a part of the election state that was never written",
    scenario=Scenario(observers=1, faults=(fault("kill", 1, 1, target="all"),)),
)
def inferred_vote(parts: NodeParts) -> NodeParts:
    """At a start a node takes the leader that it followed for the one that it has voted for."""
    return replace(parts, election_store=InferringStore)
