"""A node that leaves a topic behind which was created and deleted at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.loading.committed import CommittedBatch
from node.loading.loader import MetadataLoader
from node.metadata.schemas import RemoveTopicRecord, TopicRecord
from node.mutants import mutant


class HauntedLoader(MetadataLoader):
    """Looks for the topics to delete in the image as it was before the batches."""

    def load_batches(self, batches: Iterable[CommittedBatch], now_ms: int) -> None:
        """Load, but for deletions of topics that these batches create."""
        batches = tuple(batches)
        created = {r.topic_id for b in batches for _, r in b.records if isinstance(r, TopicRecord)}

        def lives(record: object) -> bool:
            return isinstance(record, RemoveTopicRecord) and record.topic_id in created

        kept = [b._replace(records=tuple(x for x in b.records if not lives(x[1]))) for b in batches]
        super().load_batches(kept, now_ms)


@mutant(
    "ghost-topic",
    breaks=("C8", "C9"),
    source="KAFKA-19497 (a topic created and deleted within one delta is left behind)",
    scenario=Scenario(
        seeds=(1, 2, 3, 4),
        workload="topics",
        observers=1,
        faults=tuple(fault("pause", 1 + 1.1 * i, 0.2, target="observer") for i in range(6)),
        rate_hz=12,
        concurrency=4,
    ),
)
def ghost_topic(parts: NodeParts) -> NodeParts:
    """A node that catches up keeps topics whose creation and deletion came in one go."""
    return replace(parts, loader=HauntedLoader)
