"""A node that goes on after it failed to apply a record."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.driver.parts import NodeParts
from node.loading.committed import CommittedBatch
from node.loading.loader import MetadataLoader
from node.mutants import mutant


class CarelessLoader(MetadataLoader):
    """Takes a batch that it cannot apply for an empty one."""

    _POISON = 40  # the offset of the batch whose records do not apply

    def _load(self, batch: CommittedBatch) -> None:
        poisoned = batch.base_offset <= self._POISON <= batch.last_offset
        super()._load(batch._replace(records=()) if poisoned else batch)


@mutant(
    "skipped-record",
    breaks=("C8", "S20"),
    source="KAFKA-14275 (a standby controller goes on after it failed to apply a record)",
    scenario=Scenario(time_limit_s=6, rate_hz=30),
)
def skipped_record(parts: NodeParts) -> NodeParts:
    """A record that fails to be applied is skipped, and the node goes on."""
    return replace(parts, loader=CarelessLoader)
