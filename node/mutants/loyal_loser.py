"""A voter that does not hear of a leader for whom it did not vote."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.messages import BeginQuorumEpochRequest, Error
from node.core.succession import Succession
from node.driver.parts import NodeParts
from node.mutants import mutant


class LoyalSuccession(Succession):
    """Takes its vote of an epoch for what it knows of that epoch's leader."""

    def on_begin_request(self, token: int, request: BeginQuorumEpochRequest) -> None:
        """Refuse the word of a winner while the vote was for somebody else."""
        role = self._state.role
        voted = None if role.leader_id is not None else role.voted
        if role.epoch == request.epoch and voted is not None and voted.id != request.leader_id:
            self._reply(token, "BeginQuorumEpoch", request, Error.INVALID_REQUEST)
        else:
            super().on_begin_request(token, request)


@mutant(
    "loyal-loser",
    breaks=("S38",),
    source="ours: KIP-595 has every voter follow who won, whomever it voted for",
    scenario=Scenario(
        seeds=(10,),
        voters=5,
        faults=(fault("kill", 1, 2, target="leader"), fault("kill", 4, 2, target="leader")),
        settings={"controller.quorum.election.backoff.max.ms": "50"},
    ),
)
def loyal_loser(parts: NodeParts) -> NodeParts:
    """A voter refuses the announcement of a leader that it did not vote for, as invalid."""
    return replace(parts, core=replace(parts.core, succession=LoyalSuccession))
