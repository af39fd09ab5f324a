"""A voter that has to begin waiting again whenever somebody asks it for a vote."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.messages import Error, VoteRequest
from node.core.roles import Follower, Unattached
from node.core.votes import Votes
from node.driver.parts import NodeParts
from node.mutants import mutant


class Patient(Votes):
    """Gives a candidate time to win, although it has refused it."""

    def _answer_vote(self, request: VoteRequest) -> tuple[Error, bool]:
        error, granted = super()._answer_vote(request)
        role = self._state.role
        if granted or request.pre_vote:
            return error, granted
        if isinstance(role, Follower):
            role.deadline_ms = self._state.now_ms + self._state.config.fetch_timeout_ms
        elif isinstance(role, Unattached) and role.deadline_ms is not None:
            role.deadline_ms = self._state.random_election_deadline()
        return error, granted


@mutant(
    "endless-patience",
    breaks=("L9",),
    source="ours: Raft 5.2 restarts the election timer for a vote that is given, and for no other",
    scenario=Scenario(
        seeds=(1, 2, 3, 4, 5),
        voters=5,
        faults=(fault("kill", 1, 2, target="leader"),),
        time_limit_s=4.0,
        settings={
            "controller.quorum.election.timeout.ms": "200",
            "controller.quorum.election.backoff.max.ms": "200",
        },
    ),
)
def endless_patience(parts: NodeParts) -> NodeParts:
    """A vote that is refused puts off the voter's own election as if it had been given."""
    return replace(parts, core=replace(parts.core, votes=Patient))
