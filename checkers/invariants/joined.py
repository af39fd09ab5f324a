"""Tells of a batch with several operations who came in sync before it went out of service.

A partition whose only replica is fenced keeps it in sync, without a leader. Where one batch has
both its creation and that, what comes of it is a new partition with a fenced replica in sync.
"""

from __future__ import annotations

from uuid import UUID

from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.schemas import MetadataRecord

Partition = tuple[UUID, int]


class Joined:
    """Follows the records of one batch."""

    def __init__(self) -> None:
        self._came: dict[tuple[Partition, int], int] = {}  # at which offset a replica came in sync
        self._fell: dict[int, int] = {}  # at which a broker went out of service that was in it

    def record(self, record: MetadataRecord, image: MetadataImage, at: int) -> None:
        """Take in a record, before it is applied."""
        match record:
            case s.BrokerRegistrationChangeRecord():
                if record.fenced > 0 or record.in_controlled_shutdown > 0:
                    self._falls(record.broker_id, image, at)
            case s.RegisterBrokerRecord() if record.fenced:  # anew, of another process
                self._falls(record.broker_id, image, at)
            case s.FenceBrokerRecord():
                self._falls(record.id, image, at)
            case s.PartitionRecord() | s.PartitionChangeRecord() if record.topic_id is not None:
                partition = record.topic_id, record.partition_id
                state = image.partition(*partition)
                for broker in set(record.isr or ()) - set(state.isr if state else ()):
                    self._came[partition, broker] = at
            case _:
                pass

    def was_in_service(self, partition: Partition, broker: int) -> bool:
        """Tell whether a broker was in service when it came in sync, and went out of it later."""
        fell_at = self._fell.get(broker)
        return fell_at is not None and self._came.get((partition, broker), fell_at) < fell_at

    def _falls(self, broker: int, image: MetadataImage, at: int) -> None:
        state = image.brokers.get(broker)
        if state is not None and not (state.fenced or state.in_controlled_shutdown):
            self._fell[broker] = at
