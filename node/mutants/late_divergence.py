"""A leader that credits a fetch before it compares the logs."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.mutants import mutant


class TrustingLeader(Fetches):
    """Finds a divergence only where its own log has nothing to compare with."""

    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        return super()._find_divergence(request) if request.offset > self._state.log.end else None


@mutant(
    "late-divergence",
    breaks=("S13", "S8", "S9"),
    source="KAFKA-15100: a fetch was answered from another state of the log",
    scenario=Scenario(rate_hz=20.0, faults=(fault("partition-isolate-leader", 1, 2.5),)),
)
def late_divergence(parts: NodeParts) -> NodeParts:
    """A fetch is credited and answered though the follower has other records below its offset."""
    return replace(parts, core=replace(parts.core, fetches=TrustingLeader))
