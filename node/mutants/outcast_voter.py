"""A leader that has no answer for those it has removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.leader.voters.requests import VoterRequests
from node.core.messages import Error, FetchRequest, RemoveVoterRequest
from node.core.state import ReplicaState
from node.core.types import ReplicaKey
from node.driver.parts import NodeParts
from node.mutants import mutant


class RuthlessState(ReplicaState):
    """Remembers the replicas that were removed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcasts: set[ReplicaKey] = set()


class RuthlessRequests(VoterRequests):
    """Takes note of whom it has removed."""

    _state: RuthlessState

    def on_remove_voter(self, token: int, request: RemoveVoterRequest) -> None:
        """Remove a voter, and cast it out at once."""
        super().on_remove_voter(token, request)
        if not self._state.log.voters.contains(request.voter):
            self._state.outcasts.add(request.voter)


class RuthlessFetches(Fetches):
    """Refuses the fetches of replicas that are removed."""

    _state: RuthlessState

    def _check_fetch(self, request: FetchRequest) -> Error:
        error = super()._check_fetch(request)
        outcast = error is Error.NONE and request.replica in self._state.outcasts
        return Error.NOT_LEADER_OR_FOLLOWER if outcast else error


@mutant(
    "outcast-voter",
    breaks=("S31", "L6", "L2", "L8"),
    source="KIP-853 TLA+ (a leader refuses the fetches of voters that it has removed already)",
    scenario=Scenario(
        faults=(fault("membership", 1, 2, target="follower"),),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def outcast_voter(parts: NodeParts) -> NodeParts:
    """A leader refuses to serve a voter as soon as it removes it, which never learns of that."""
    return replace(
        parts,
        core=replace(
            parts.core,
            state=RuthlessState,
            voter_requests=RuthlessRequests,
            fetches=RuthlessFetches,
        ),
    )
