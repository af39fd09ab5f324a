"""A log that begins above 0 with nothing below it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from node.catalogue.scenario import Scenario, fault
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.log.file_log import FileLog
from node.mutants import mutant


def trust(first: int, latest: OffsetAndEpoch | None, directory: Path) -> None:
    """Take the log as it is, wherever it begins."""
    del first, latest, directory


class TrustingLog(FileLog):
    """Opens a log without a look at where it begins."""

    check_begin = staticmethod(trust)


@mutant(
    "bottomless-log",
    breaks=("S23", "S20"),
    source="KAFKA-14240: a log that begins above 0 was opened without a snapshot",
    scenario=Scenario(
        rate_hz=20.0,
        faults=(fault("disk-lost-snapshot", 3, 1, target="follower"),),
        settings={
            "metadata.log.max.record.bytes.between.snapshots": "1500",
            "metadata.max.retention.bytes": "1",
            "metadata.log.segment.bytes": "4096",
            "krucible.log.clean.interval.ms": "300",
        },
    ),
)
def bottomless_log(parts: NodeParts) -> NodeParts:
    """A node starts though neither records nor a snapshot say what was before its log."""
    return replace(parts, log=TrustingLog)
