"""A replica that installs a snapshot before what it has in its log."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import SNAPSHOTS_ONLY, Scenario, fault
from node.core.follower.downloading import Downloading
from node.core.inputs import SnapshotInstalled
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.log.file_log import FileLog
from node.mutants import mutant


class SuffixReplica(Downloading):
    """Goes on at the end of its own records, where these reach beyond the snapshot."""

    def on_snapshot_installed(self, installed: SnapshotInstalled) -> None:
        """Begin at the snapshot, and keep the end."""
        end, epochs = self._state.log.end, self._state.log.epochs
        super().on_snapshot_installed(installed)
        if end > installed.snapshot.id.offset:
            self._state.log.end = self._state.log.flushed = end
            self._state.log.epochs = epochs


class SuffixLog(FileLog):
    """Drops what a snapshot covers, and no more."""

    def truncate_fully_to(self, snapshot: OffsetAndEpoch) -> None:
        """Make the log begin at the snapshot, and keep what follows it."""
        if self.end_offset > snapshot.offset:
            self.advance_start(snapshot.offset)
        else:
            super().truncate_fully_to(snapshot)


@mutant(
    "kept-suffix",
    breaks=("S24", "L8"),
    source="hashicorp/raft #697, #704 (after a snapshot a conflicting suffix stays in the log)",
    scenario=Scenario(
        seeds=(2, 3),
        faults=(fault("partition-isolate-leader", 2, 1.2),),
        time_limit_s=5,
        rate_hz=100,
        concurrency=60,
        settings=SNAPSHOTS_ONLY,
    ),
)
def kept_suffix(parts: NodeParts) -> NodeParts:
    """An installed snapshot leaves records in the log that conflict with what follows it."""
    return replace(parts, core=replace(parts.core, downloading=SuffixReplica), log=SuffixLog)
