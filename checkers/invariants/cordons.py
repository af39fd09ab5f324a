"""Judges where new replicas are placed while brokers are cordoned: C18.

Source: KIP-1066; ``BrokerRegistration.hasUncordonedDirs`` of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from checkers.invariants.granted import Partition, named
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.image import MetadataImage

C18 = Meaning(
    "C18",
    title="no new replica on a cordoned broker",
    promise=(
        "A broker whose log directories are all cordoned gets no new replica, neither by number "
        "nor by hand. That holds while it is away, and until it says otherwise."
    ),
    why=(
        "Who cordons a broker is about to remove it, or its disks are full. A replica that comes "
        "all the same is lost with the broker, or fills a disk and stops all that is on it."
    ),
    source="KIP-1066; KAFKA-19774; KAFKA-20832",
)
FORGOTTEN = ", which its registration does not say"  # in an anomaly's message


class CordonGuard:
    """Follows which directories brokers have said are cordoned, and who gets replicas."""

    def __init__(self) -> None:
        self.checked = 0
        self._said: dict[int, frozenset[UUID | None]] = {}  # by brokers that are registered

    def begin(self, image: MetadataImage) -> None:
        """Begin with a snapshot's state."""
        for broker in image.brokers.values():
            if broker.cordoned_log_dirs is not None:
                self._said[broker.id] = frozenset(broker.cordoned_log_dirs)

    def record(
        self, record: s.MetadataRecord, image: MetadataImage, offset: int
    ) -> Iterator[Anomaly]:
        """Take in a record, before it is applied to the image."""
        match record:
            case s.RegisterBrokerRecord() | s.BrokerRegistrationChangeRecord():
                if record.cordoned_log_dirs is not None:
                    self._said[record.broker_id] = frozenset(record.cordoned_log_dirs)
            case s.UnregisterBrokerRecord():
                self._said.pop(record.broker_id, None)
            case s.PartitionRecord() | s.PartitionChangeRecord() if (
                record.topic_id is not None and record.replicas
            ):
                partition = record.topic_id, record.partition_id
                before = image.partition(*partition)
                new = set(record.replicas) - set(before.replicas if before is not None else ())
                for broker in sorted(new):
                    yield from self._place(broker, partition, image, offset)
            case _:
                pass

    def _place(
        self, broker: int, partition: Partition, image: MetadataImage, offset: int
    ) -> Iterator[Anomaly]:
        """Judge that a broker gets a replica."""
        known, said = image.brokers.get(broker), self._said.get(broker)
        if known is None or not known.log_dirs or not said:
            return
        self.checked += 1
        if not set(known.log_dirs) <= said:
            return
        where, those = named(partition, image), ", ".join(map(str, known.log_dirs))
        yield Anomaly(
            C18.name,
            f"broker {broker} gets a replica of partition {where} at offset {offset}, though all"
            f" its log directories are cordoned{'' if known.is_cordoned else FORGOTTEN}: {those}",
            details={"topic": where, "brokers": [broker]},
        )
