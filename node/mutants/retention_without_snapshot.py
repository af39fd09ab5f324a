"""Retention that looks at sizes only, not at snapshots."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.log.cleaning import Cleaning, Retention
from node.log.file_log import FileLog
from node.log.segments import drop_first_segments
from node.mutants import mutant


class GreedyLog(FileLog):
    """Deletes its oldest segments when they are too large, as a topic's log would."""

    def clean(self, *, now_ms: int, retention: Retention) -> Cleaning | None:
        """Delete all segments but the last, or what the healthy log would."""
        sizes = [segment.size for segment in self._segments]
        dropped = self._segments[:-1] if sum(sizes) > retention.max_bytes else []
        if not dropped:
            return super().clean(now_ms=now_ms, retention=retention)
        drop_first_segments(self._disk, self._dir, dropped)
        del self._segments[: len(dropped)]
        self._dirty = [segment for segment in self._dirty if segment not in dropped]
        self._retire(dropped)
        self._cache.truncate_to(0)
        self._start = OffsetAndEpoch(self._segments[0].base_offset, self._epochs.latest_epoch)
        return Cleaning(self._start, (), ("segments are too large",))


@mutant(
    "retention-without-snapshot",
    breaks=("S23", "crash"),
    source="KAFKA-14238: retention deleted segments beyond the latest snapshot",
    scenario=Scenario(
        rate_hz=20.0,
        settings={
            "metadata.log.segment.bytes": "1000",
            "metadata.max.retention.bytes": "2000",
            "krucible.log.clean.interval.ms": "300",
        },
    ),
)
def retention_without_snapshot(parts: NodeParts) -> NodeParts:
    """The oldest segments are deleted by size alone, though no snapshot holds their records."""
    return replace(parts, log=GreedyLog)
