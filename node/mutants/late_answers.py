"""A candidate that counts answers to what it asked before."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from node.core import effects as fx
from node.core.messages import VoteResponse
from node.core.replica import QuorumResponse, Replica
from node.core.roles import Candidate, Role, RoleName
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario


class HastyCandidate(Replica):
    """Raises its epoch on one path while answers to the epoch before come in on another."""

    def _enter(self, role: Role, old: RoleName | None, why: str) -> None:
        before = deepcopy(self._connections)
        super()._enter(role, old, why)
        if isinstance(role, Candidate):
            self._connections = before
            self._out = [e for e in self._out if not isinstance(e, fx.ResetConnections)]

    def _is_settled_by_epoch(self, peer: int, response: QuorumResponse) -> bool:
        late = isinstance(response, VoteResponse) and response.epoch == self.epoch - 1
        if late and isinstance(self._role, Candidate):
            return False
        return super()._is_settled_by_epoch(peer, response)


@mutant(
    "late-answers",
    breaks=("S6", "S1"),
    source="hashicorp/raft #695 (the term changes on one path while another still uses the old)",
    scenario=Scenario(voters=5, time_limit_s=3),
)
def late_answers(parts: NodeParts) -> NodeParts:
    """Answers to pre-votes that come after the epoch was raised count as votes in the new one."""
    return replace(parts, replica=HastyCandidate)
