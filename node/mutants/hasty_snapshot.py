"""A snapshot that has its name before it has its bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.log.file_log import FileLog
from node.log.snapshot_files import PartFile, SnapshotWriter
from node.mutants import mutant


class UnsyncedFile(PartFile):
    """Does not wait for the disk."""

    def sync(self) -> None:
        """Leave it to the kernel."""


class HastyWriter(SnapshotWriter):
    """Renames what the kernel has not written yet."""

    part = UnsyncedFile


class HastyLog(FileLog):
    """Makes its snapshots with such a writer."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.snapshots.writer = HastyWriter


@mutant(
    "hasty-snapshot",
    breaks=("S23",),
    source="KAFKA-15312: a snapshot was renamed before it was flushed",
    scenario=Scenario(
        rate_hz=20.0,
        faults=(fault("power", 3, 0.5, target="follower"),),
        settings={"metadata.log.max.record.bytes.between.snapshots": "300"},
    ),
)
def hasty_snapshot(parts: NodeParts) -> NodeParts:
    """A snapshot has its name before its bytes are on the disk: power loss leaves an empty one."""
    return replace(parts, log=HastyLog)
