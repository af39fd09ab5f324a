"""A leader that cleans up when it goes."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class TidyLeader(Leadership):
    """Leaves nothing in its log of which it does not know that it is committed."""

    def on_left(self, leader: Leader) -> None:
        """Tell the controller, and cut the log."""
        super().on_left(leader)
        end = max(self._state.log.committed_floor, self._state.log.start)
        if end < self._state.log.end:
            self._state.log.truncate(end, "stepped down")


@mutant(
    "dropped-suffix",
    breaks=("S10", "S11", "S9", "S17"),
    source="CCF #5674 (a leader that steps down drops a suffix that is committed)",
    scenario=Scenario(
        seeds=(1, 3, 4),
        voters=5,
        faults=(
            fault("slow-links", 1, 6, target="all", way="both", delay_ms=100, jitter_ms=0),
            fault("partition-isolate-leader", 2, 2.5),
            fault("partition-isolate-leader", 3.6, 2.5),
        ),
        time_limit_s=10,
        rate_hz=30,
        concurrency=10,
    ),
)
def dropped_suffix(parts: NodeParts) -> NodeParts:
    """On stepping down a leader cuts its log to the high watermark that it knows."""
    return replace(parts, core=replace(parts.core, leadership=TidyLeader))
