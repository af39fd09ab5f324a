"""A log that fsyncs one of its files only."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.log.file_log import FileLog, Flush
from node.mutants import mutant


class OneFileLog(FileLog):
    """Flushes the segment that it writes to, and none that it has left since the last flush."""

    def start_flush(self) -> Flush:
        """Begin a flush of the last file."""
        flush = super().start_flush()
        flush.files = flush.files[-1:]
        return flush


@mutant(
    "half-flushed-log",
    breaks=("S35",),
    source="ours: of two files that were written only the newer one is fsynced (KIP-595, flush)",
    scenario=Scenario(
        faults=(fault("kill", 1, 3, target="follower"),),
        rate_hz=50,
        concurrency=10,
        settings={"metadata.log.segment.bytes": "4096"},
    ),
)
def half_flushed_log(parts: NodeParts) -> NodeParts:
    """A flush that spans two segments fsyncs the newer one only, and counts both."""
    return replace(parts, log=OneFileLog)
