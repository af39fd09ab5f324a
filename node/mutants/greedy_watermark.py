"""A follower that takes all that it has fetched for committed."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.own_log import OwnLog
from node.driver.parts import NodeParts
from node.mutants import mutant


class GreedyLog(OwnLog):
    """Goes by its own end, and not by what the leader says of the majority."""

    def follow_high_watermark(self, leader_high_watermark: int | None) -> None:
        """Take the end of this log for the high watermark, once the leader has one."""
        if leader_high_watermark is not None:
            super().follow_high_watermark(max(leader_high_watermark, self.end))


@mutant(
    "greedy-watermark",
    breaks=("S15",),
    source="Raft, figure 2 (a follower's commit index is the lesser of the leader's and its last "
    "new entry)",
    scenario=Scenario(rate_hz=50.0),
)
def greedy_watermark(parts: NodeParts) -> NodeParts:
    """A follower exposes records that only itself and the leader have."""
    return replace(parts, core=replace(parts.core, log=GreedyLog))
