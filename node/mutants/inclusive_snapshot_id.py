"""Snapshots that are named by their last record."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.types import OffsetAndEpoch
from node.driver.parts import NodeParts
from node.driver.snapshots import Snapshots
from node.mutants import mutant


class InclusiveSnapshots(Snapshots):
    """Names a snapshot by the last record in it instead of the first that is not."""

    def _next_id(self) -> OffsetAndEpoch:
        snapshot = super()._next_id()
        return OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch)


@mutant(
    "inclusive-snapshot-id",
    breaks=("S22", "S20", "C8"),
    source="KAFKA-14618: a snapshot's id was the offset of its last record",
    scenario=Scenario(
        workload="topics",
        rate_hz=20.0,
        faults=(fault("kill", 3, 0.5, target="follower"),),
        settings={"metadata.log.max.record.bytes.between.snapshots": "1000"},
    ),
)
def inclusive_snapshot_id(parts: NodeParts) -> NodeParts:
    """A snapshot is named one offset too low: it holds a record that is applied again after it."""
    return replace(parts, snapshots=InclusiveSnapshots)
