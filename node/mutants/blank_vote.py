"""An election state that is blank for a moment, whenever it is saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import ElectionState
from node.driver.parts import NodeParts
from node.log.quorum_state import ElectionStateStore
from node.mutants import mutant


class TwoStepStore(ElectionStateStore):
    """Saves the epoch first, each time, and then who leads it and who got the vote."""

    def save(
        self, state: ElectionState, *, kraft_version: int = 1, voter_ids: Iterable[int] = ()
    ) -> None:
        """Replace the file twice, durably and atomically each time."""
        blank = ElectionState(epoch=state.epoch)
        super().save(blank, kraft_version=kraft_version, voter_ids=voter_ids)
        super().save(state, kraft_version=kraft_version, voter_ids=voter_ids)


_VOTED = {"t": "vote", "pre": False, "ok": True}
_CHANGED = {"t": "change", "file": "quorum-state"}


@mutant(
    "blank-vote",
    breaks=("S3", "S2"),
    source="ours: KIP-595 has epoch, leader and vote durable together; Raft, figure 2 (votedFor)",
    scenario=Scenario(
        seeds=(1, 2, 3),
        faults=(
            {
                **fault("power", 0, 0.5, target="event", clean=True),
                "trigger": {"on": _CHANGED, "nth": 7, "after": _VOTED},
            },
            fault("kill", 1, 1.5, target="leader"),
        ),
    ),
)
def blank_vote(parts: NodeParts) -> NodeParts:
    """Epoch and vote are saved in two steps: a power failure between them leaves no vote."""
    return replace(parts, election_store=TwoStepStore)
