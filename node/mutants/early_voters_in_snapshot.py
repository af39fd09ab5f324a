"""A snapshot that holds voters of records after it."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import VoterSet
from node.driver.parts import NodeParts
from node.log.file_log import FileLog
from node.mutants import mutant


class ForesightedLog(FileLog):
    """Puts the newest voters of the log into a snapshot, wherever that ends."""

    def _quorum_at(self, offset: int) -> tuple[int, VoterSet | None]:
        del offset
        return super()._quorum_at(self.end_offset - 1)


@mutant(
    "early-voters-in-snapshot",
    breaks=("S22", "S28"),
    source="canonical/raft #250, #323 and #354 (a snapshot has members that are not committed)",
    scenario=Scenario(
        seeds=(1, 2, 3),
        faults=(
            fault("slow-links", 1, 4, target="all", way="both", delay_ms=150, jitter_ms=0),
            fault("membership", 2, 1, target="follower"),
        ),
        rate_hz=40,
        concurrency=10,
        settings={
            "krucible.quorum": "dynamic",
            "metadata.log.max.record.bytes.between.snapshots": "100",
        },
    ),
)
def early_voters_in_snapshot(parts: NodeParts) -> NodeParts:
    """The voters in a snapshot are those at the end of the log, committed or not."""
    return replace(parts, log=ForesightedLog)
