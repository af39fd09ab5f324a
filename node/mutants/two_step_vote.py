"""A voter that writes epoch and vote one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import ElectionState
from node.driver.parts import NodeParts
from node.log.quorum_state import ElectionStateStore
from node.mutants import mutant


class TwoStepStore(ElectionStateStore):
    """Writes the new epoch beside the old leader and vote first, and then these."""

    def save(
        self, state: ElectionState, *, kraft_version: int = 1, voter_ids: Iterable[int] = ()
    ) -> None:
        """Replace the file twice; each time atomically."""
        ids, old = tuple(voter_ids), self.load()
        if old is not None and old.epoch != state.epoch:
            mixed = replace(old, epoch=state.epoch)
            super().save(mixed, kraft_version=kraft_version, voter_ids=ids)
        super().save(state, kraft_version=kraft_version, voter_ids=ids)


@mutant(
    "two-step-vote",
    breaks=("S36", "S37"),
    source="hashicorp/raft's stable store (term and vote are keys of their own, set one by one)",
    scenario=Scenario(faults=(fault("kill", 1, 2, target="leader"),)),
)
def two_step_vote(parts: NodeParts) -> NodeParts:
    """Epoch and vote are written in two steps: between them the disk has a vote never given."""
    return replace(parts, election_store=TwoStepStore)
