"""Committed batches with their records, and where they come from: the input of the loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from node.core.messages import Batch
from node.log.batch import iter_records, timestamp_ms
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
        return cls.without_records(batch)._replace(
            records=() if batch.is_control else tuple(decoded(batch))
        )

    @classmethod
    def without_records(cls, batch: Batch) -> CommittedBatch:
        """A batch of the log whose records are ``decoded`` elsewhere."""
        return cls(
            batch.base_offset,
            batch.last_offset,
            batch.epoch,
            timestamp_ms(batch),
            len(batch.data),
            (),
        )


def decoded(batch: Batch) -> Iterator[tuple[int, MetadataRecord]]:
    """The metadata records of a data batch with their offsets, each decoded when it is taken.

    Raises:
        CorruptBatchError: Its content is not records.
        RecordError: One of them is no metadata record that this node knows.
    """
    for offset, _, value in iter_records(batch):
        if value is None:
            raise RecordError(f"the metadata record at {offset} has no value")
        yield offset, decode_record(value)
