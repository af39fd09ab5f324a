"""A leader that tells of a voter change as soon as it has written it down."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.voters.changes import VoterChange
from node.core.leader.voters.requests import VoterRequests
from node.core.messages import AddVoterRequest
from node.core.types import VersionRange
from node.driver.parts import NodeParts
from node.mutants import mutant


class HastyLeader(VoterRequests):
    """Takes every AddVoter for one that does not want to wait for the commit."""

    def _append_added(
        self, change: VoterChange, request: AddVoterRequest, versions: VersionRange
    ) -> None:
        super()._append_added(change, replace(request, ack_when_committed=False), versions)


@mutant(
    "early-voter",
    breaks=("S17",),
    source="ours: KIP-853 answers AddVoter when the new voter set is committed",
    scenario=Scenario(
        faults=(fault("membership", 1, 2, target="follower"),),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def early_voter(parts: NodeParts) -> NodeParts:
    """AddVoter is answered when the new voter set is appended, not when it is committed."""
    return replace(parts, core=replace(parts.core, voter_requests=HastyLeader))
