"""A voter that restarts without its vote."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import ElectionState
from node.driver.parts import NodeParts
from node.log.quorum_state import ElectionStateStore
from node.mutants import mutant


class ForgetfulStore(ElectionStateStore):
    """Remembers the epoch, not whom it voted for or followed in it."""

    def load(self) -> ElectionState | None:
        """The saved epoch alone."""
        state = super().load()
        return None if state is None else ElectionState(epoch=state.epoch)


@mutant(
    "forgotten-vote",
    breaks=("S3", "S2"),
    source="KAFKA-15412 (quorum-state not trusted is as good as lost); KIP-595 on durable votes",
    scenario=Scenario(faults=(fault("kill", 1, 0.5, target="follower"),)),
)
def forgotten_vote(parts: NodeParts) -> NodeParts:
    """After a restart a voter does not remember its vote, so it can vote twice in one epoch."""
    return replace(parts, election_store=ForgetfulStore)
