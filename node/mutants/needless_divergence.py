"""A leader that sees a divergence wherever a follower's log ends with an older epoch."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.fetches import Fetches
from node.core.messages import FetchRequest
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.mutants import mutant


class StrictLeader(Fetches):
    """Wants the last epochs to be the same, and not the logs."""

    def _find_divergence(self, request: FetchRequest) -> OffsetAndEpoch | None:
        log = self._state.log
        if request.offset > log.start and request.last_fetched_epoch < log.epochs.latest_epoch:
            return log.end_offset_for(request.last_fetched_epoch)
        return super()._find_divergence(request)


@mutant(
    "needless-divergence",
    breaks=("S38",),
    source="ours: KIP-595 has a follower cut only what the leader's log does not have",
    scenario=Scenario(faults=(fault("kill", 1, 2, target="leader"),)),
)
def needless_divergence(parts: NodeParts) -> NodeParts:
    """A follower of an older epoch is told to cut its log though it is a prefix of the leader's."""
    return replace(parts, core=replace(parts.core, fetches=StrictLeader))
