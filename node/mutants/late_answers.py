"""A candidate that counts answers to what it asked before."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core import effects as fx
from node.core.fencing import Fencing, QuorumResponse
from node.core.messages import VoteResponse
from node.core.role_changes import RoleChanges
from node.core.roles import Candidate, Role, RoleName
from node.driver.parts import NodeParts
from node.mutants import mutant


class HastyCandidate(RoleChanges):
    """Raises its epoch on one path while answers to the epoch before come in on another."""

    def enter(self, role: Role, old: RoleName | None, why: str) -> None:
        """Keep what is in flight when a candidate is made."""
        state = self._state
        before = deepcopy(state.connections)
        super().enter(role, old, why)
        if isinstance(role, Candidate):
            state.connections = before
            state.out.effects = [
                each for each in state.out.effects if not isinstance(each, fx.ResetConnections)
            ]


class OpenFencing(Fencing):
    """Lets a candidate hear answers to the epoch before."""

    def is_settled_by_epoch(self, peer: int, response: QuorumResponse) -> bool:
        """Take a late vote for one of this epoch."""
        late = isinstance(response, VoteResponse) and response.epoch == self._state.epoch - 1
        if late and isinstance(self._state.role, Candidate):
            return False
        return super().is_settled_by_epoch(peer, response)


@mutant(
    "late-answers",
    breaks=("S6", "S1"),
    source="hashicorp/raft #695 (the term changes on one path while another still uses the old)",
    scenario=Scenario(voters=5, time_limit_s=3),
)
def late_answers(parts: NodeParts) -> NodeParts:
    """Answers to pre-votes that come after the epoch was raised count as votes in the new one."""
    return replace(parts, core=replace(parts.core, roles=HastyCandidate, fencing=OpenFencing))
