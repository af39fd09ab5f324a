"""A leader that knows its voters by number."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class NumberReader(Fetches):
    """Takes whoever has a voter's id for that voter, whatever disk it has."""

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        named = role.progress.voters.get(request.replica.id)
        super()._take_progress(role, voter or named, request)


@mutant(
    "identity-by-id",
    breaks=("S29", "S13", "S2"),
    source="RethinkDB #5289 (a member comes back to life with the same id and an empty log)",
    scenario=Scenario(
        seeds=(6, 17, 18, 19),
        faults=(
            fault("slow-links", 1, 6, target="all", way="both", delay_ms=150, jitter_ms=0),
            fault("disk-wipe", 1.5, 1.5),
        ),
        rate_hz=30,
        settings={"krucible.quorum": "dynamic"},
    ),
)
def identity_by_id(parts: NodeParts) -> NodeParts:
    """A replica with the id of a voter counts as that voter, though its disk is another."""
    return replace(parts, core=replace(parts.core, fetches=NumberReader))
