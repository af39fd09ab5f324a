"""A leader that knows voters by number only."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class ForgivingLeader(Fetches):
    """Counts a node with a new disk as the voter that it was."""

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        known = voter or role.progress.voters.get(request.replica.id)
        super()._take_progress(role, known, request)


@mutant(
    "nameless-disk",
    breaks=("S29", "S13", "S11", "S9", "S2"),
    source="KAFKA-14077: a voter that had lost its disk was counted as before",
    scenario=Scenario(
        rate_hz=20.0,
        faults=(
            fault("disk-wipe", 2, 1, target="follower"),
            fault("pause", 2.8, 1, target="follower", draw=0.9),
        ),
        settings={"krucible.quorum": "dynamic"},
    ),
)
def nameless_disk(parts: NodeParts) -> NodeParts:
    """A voter that comes back with an empty disk counts as the one that it was before."""
    return replace(parts, core=replace(parts.core, fetches=ForgivingLeader))
