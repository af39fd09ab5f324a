"""A leader that has no answer for those it has removed."""

from __future__ import annotations

from dataclasses import replace

from node.core.messages import Error, FetchRequest, RemoveVoterRequest
from node.core.replica import Replica
from node.core.types import ReplicaKey
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class RuthlessLeader(Replica):
    """Refuses the fetches of replicas that it has removed."""

    def _init_leading(self) -> None:
        super()._init_leading()
        self._outcasts: set[ReplicaKey] = set()

    def _on_remove_voter(self, token: int, request: RemoveVoterRequest) -> None:
        super()._on_remove_voter(token, request)
        if not self._voters.contains(request.voter):
            self._outcasts.add(request.voter)

    def _check_fetch(self, request: FetchRequest) -> Error:
        error = super()._check_fetch(request)
        outcast = error is Error.NONE and request.replica in self._outcasts
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
    return replace(parts, replica=RuthlessLeader)
