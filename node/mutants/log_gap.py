"""A log that is cleaned a segment too far."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.log.file_log import FileLog
from node.log.segments import drop_first_segments
from node.mutants import mutant


class GappedLog(FileLog):
    """Deletes the segment in which the snapshot ends, and not only those before it."""

    def advance_start(self, offset: int) -> tuple[OffsetAndEpoch, ...]:
        """Make the log begin at ``offset``, and drop one segment too many."""
        before = self.start_offset
        deleted = super().advance_start(offset)
        if self.start_offset > before and len(self._segments) > 1:
            dropped = self._segments[:1]
            drop_first_segments(self._disk, self._dir, dropped)
            del self._segments[:1]
            self._retire(dropped)
        return deleted


@mutant(
    "log-gap",
    breaks=("S23", "S25", "S20", "L8"),
    source="redisraft #43 (a gap between the snapshot and the first record of the log)",
    scenario=Scenario(
        faults=(fault("kill", 4, 1, target="one"),),
        rate_hz=40,
        settings={
            "metadata.log.max.record.bytes.between.snapshots": "1000",
            "metadata.log.segment.bytes": "300",
            "metadata.max.retention.bytes": "2000",
            "krucible.log.clean.interval.ms": "300",
        },
    ),
)
def log_gap(parts: NodeParts) -> NodeParts:
    """Cleaning deletes one segment more than the snapshot covers."""
    return replace(parts, log=GappedLog)
