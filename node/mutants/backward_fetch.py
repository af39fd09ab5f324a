"""A leader that cannot stand a follower that has lost something."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.own_log import IllegalStateError
from node.core.progress import ReplicaProgress
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class BrittleLeader(Fetches):
    """Takes it for impossible that a fetch begins below the one before."""

    def _take_progress(
        self, role: Leader, voter: ReplicaProgress | None, request: FetchRequest
    ) -> None:
        before = None if voter is None else voter.end_offset
        if before is not None and request.offset < before:
            raise IllegalStateError(f"fetch at {request.offset} after one at {before}")
        super()._take_progress(role, voter, request)


@mutant(
    "backward-fetch",
    breaks=("crash", "L8", "L1"),
    source="KAFKA-12181: the leader threw when a replica's fetch offset went backward",
    scenario=Scenario(faults=(fault("disk-bit-flip", 2, 0.2, target="follower"),)),
)
def backward_fetch(parts: NodeParts) -> NodeParts:
    """A leader dies when a follower that has lost the end of its log fetches it again."""
    return replace(parts, core=replace(parts.core, fetches=BrittleLeader))
