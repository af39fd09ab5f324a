"""A leader that serves whole chunks only."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import SNAPSHOTS_ONLY, Scenario, fault
from node.core.leader.snapshots import SnapshotFetches
from node.core.messages import Error, FetchSnapshotRequest
from node.driver.parts import NodeParts
from node.mutants import mutant


class StrictFetches(SnapshotFetches):
    """Compares the end of what is asked for with the size, and not the position."""

    def _check(self, request: FetchSnapshotRequest) -> tuple[Error, int]:
        """Refuse the last chunk, unless it is just as long as asked for."""
        error, size = super()._check(request)
        if error is Error.NONE and request.position + request.max_bytes > size:
            return Error.POSITION_OUT_OF_RANGE, 0
        return error, size


@mutant(
    "strict-range",
    breaks=("S38",),
    source="ours: KIP-630 has the leader send what is left behind the position, however little",
    scenario=Scenario(
        seeds=(1, 3),
        faults=(fault("kill", 1, 2, target="follower"),),
        time_limit_s=5,
        rate_hz=100,
        settings=SNAPSHOTS_ONLY,
    ),
)
def strict_range(parts: NodeParts) -> NodeParts:
    """The last chunk of a snapshot is refused as out of range, so nobody gets to its end."""
    return replace(parts, core=replace(parts.core, snapshots=StrictFetches))
