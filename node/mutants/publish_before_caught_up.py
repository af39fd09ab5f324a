"""A broker that serves what it has read so far."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.loading.loader import MetadataLoader
from node.mutants import mutant


class EagerLoader(MetadataLoader):
    """Counts as caught up as soon as it has seen a record."""

    def high_watermark(self, high_watermark: int) -> None:
        """Publish at once what there is."""
        self._high_watermark = self._high_watermark or high_watermark
        super().high_watermark(high_watermark)

    def _caught_up(self) -> bool:
        if self.catch_up is None and self._seen_record:
            self._high_watermark = min(self._high_watermark or 0, self.provenance.offset + 1)
        return super()._caught_up()


@mutant(
    "publish-before-caught-up",
    breaks=("C10", "C8"),
    source="KAFKA-14857 (a broker publishes before it has reached the high watermark)",
    scenario=Scenario(
        observers=2,
        faults=(fault("kill", 3, 1, target="observer"),),
        rate_hz=30,
        settings={"metadata.log.max.record.bytes.between.snapshots": "1000"},
    ),
)
def publish_before_caught_up(parts: NodeParts) -> NodeParts:
    """A broker publishes its first image before it has come to the high watermark."""
    return replace(parts, loader=EagerLoader)
