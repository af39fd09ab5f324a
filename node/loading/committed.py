"""Committed batches with their records, and where they come from: the input of the loader."""

from __future__ import annotations

from typing import NamedTuple

from node.core.messages import Batch
from node.log.batch import decode_records, timestamp_ms
from node.metadata.records import MetadataRecord, RecordError, decode_record


class Provenance(NamedTuple):
    """The place of an image in the log: its last record, that record's epoch and batch time.

    ``offset`` is inclusive, -1 for an image of nothing; ``timestamp_ms`` is in ms since 1970.
    """

    offset: int
    epoch: int
    timestamp_ms: int


class CommittedBatch(NamedTuple):
    """One batch; control batches have no metadata ``records``. ``size`` is in bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size: int
    records: tuple[tuple[int, MetadataRecord], ...]

    @classmethod
    def of(cls, batch: Batch) -> CommittedBatch:
        """A batch of the log, its records decoded.

        Raises:
            CorruptBatchError: Its content is not records.
            RecordError: One of them is no metadata record that this node knows.
        """
        return cls(
            batch.base_offset,
            batch.last_offset,
            batch.epoch,
            timestamp_ms(batch),
            len(batch.data),
            () if batch.is_control else tuple(_decoded(batch)),
        )


def _decoded(batch: Batch) -> list[tuple[int, MetadataRecord]]:
    records = []
    for offset, _, value in decode_records(batch):
        if value is None:
            raise RecordError(f"the metadata record at {offset} has no value")
        records.append((offset, decode_record(value)))
    return records
