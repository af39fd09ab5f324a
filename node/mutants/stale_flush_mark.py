"""A replica that believes to have flushed what it has truncated."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.own_log import OwnLog
from node.driver.parts import NodeParts
from node.mutants import mutant


class UnloweredFlush(OwnLog):
    """Keeps the flushed offset of a log that was longer."""

    def truncate(self, to: int, why: str) -> None:
        """Cut the log, but not what is known to be flushed."""
        flushed = self.flushed
        super().truncate(to, why)
        self.flushed = flushed


@mutant(
    "stale-flush-mark",
    breaks=("S13", "S16"),
    source="Redpanda #2932, #2937 (the flushed offset is not lowered on truncation)",
    scenario=Scenario(
        seeds=(8, 14, 19, 27),
        faults=(
            fault("partition-isolate-leader", 1, 2.2),
            fault("partition-isolate-leader", 5, 2.2),
        ),
        time_limit_s=9,
        rate_hz=20,
        concurrency=20,
    ),
)
def stale_flush_mark(parts: NodeParts) -> NodeParts:
    """Truncation leaves the flushed offset where it was: what comes next counts as on disk."""
    return replace(parts, core=replace(parts.core, log=UnloweredFlush))
