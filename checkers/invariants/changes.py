"""Pairs each record that changes a partition with what the partition was before and after it."""

from __future__ import annotations

from typing import NamedTuple

from checkers.invariants.granted import Partition
from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.state import PartitionState


class Change(NamedTuple):
    """A partition that a record has changed."""

    partition: Partition
    before: PartitionState
    after: PartitionState


class Changes:
    """Remembers a partition until the record about it has been applied to the image."""

    def __init__(self) -> None:
        self._before: PartitionState | None = None

    def record(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in a record before it is applied to the image."""
        if isinstance(record, s.PartitionChangeRecord) and record.topic_id is not None:
            self._before = image.partition(record.topic_id, record.partition_id)

    def applied(self, record: s.MetadataRecord, image: MetadataImage) -> Change | None:
        """Give what the record has changed; None: it changes no partition that there is."""
        if not isinstance(record, s.PartitionChangeRecord) or record.topic_id is None:
            return None
        partition = record.topic_id, record.partition_id
        after = image.partition(*partition)
        if self._before is None or after is None:
            return None
        return Change(partition, self._before, after)
