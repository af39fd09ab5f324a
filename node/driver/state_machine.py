"""The state machine: committed batches of the log go to the metadata loader, a slice at a time.

A node that restarts with a million records must not go silent until it has folded them all. A batch
of thousands is loaded in slices, too, and shows in the image as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from node.core.messages import Batch
from node.loading.committed import CommittedBatch, Provenance, decoded
from node.loading.loader import MetadataLoader
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.file_log import FileLog
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord
from node.metadata.schemas import ClearElrRecord

RECORDS_PER_SLICE = 1_000

Trace = Callable[[str, Mapping[str, Any]], None]
Numbered = tuple[int, MetadataRecord]  # (offset, record)


@dataclass(slots=True)
class _Large:
    """A batch of very many records that is being loaded, and the records read so far."""

    batch: CommittedBatch
    records: list[Numbered]
    slices: Iterator[None]


class StateMachine:
    """The image of all committed records, and how far it has come.

    ``applied`` is exclusive: batches below it were loaded; ``epoch`` is that of the last of them.
    Records of a metadata transaction are in the image when it ends, not before.

    Args:
        log: Where the batches are.
        policy: Told what is loaded, so that it knows when a snapshot is due.
        trace: Takes ``apply`` for each slice.
        publish: Takes what the loader says of its publications; of a broker, they are traced.
        loader: Makes the loader.
    """

    def __init__(
        self,
        log: FileLog,
        policy: SnapshotPolicy,
        *,
        trace: Trace,
        publish: Trace,
        loader: type[MetadataLoader] = MetadataLoader,
    ) -> None:
        self.loader = loader(policy, publish)
        self.applied = log.start_offset
        self.committed = log.start_offset
        self.epoch = 0
        self._log = log
        self._trace = trace
        self._restoring: tuple[Provenance, Iterator[None]] | None = None
        self._large: _Large | None = None
        self._now_ms = 0

    @property
    def image(self) -> MetadataImage:
        """The image, the same object for as long as the node lives."""
        return self.loader.image

    @property
    def is_behind(self) -> bool:
        """Tell whether there are committed records, or parts of a snapshot, still to load."""
        return self._restoring is not None or self.applied < self.committed

    @property
    def published(self) -> int | None:
        """End of the published metadata; None until the node has caught up after its start."""
        offset = self.loader.published_offset
        return None if offset < 0 else offset + 1

    def commit(self, high_watermark: int) -> None:
        """Records below ``high_watermark`` may be loaded."""
        self.committed = max(self.committed, high_watermark)
        self.loader.high_watermark(high_watermark)

    def restore(self, records: Iterable[MetadataRecord], at: Provenance) -> None:
        """Begin anew with the content of a snapshot that holds all up to ``at``, inclusive.

        What is more than a slice is left to ``advance``; until the last of it is loaded, the image
        and ``applied`` are what they were. A snapshot that is still being loaded is given up.
        """
        self._large = None
        self.applied = min(self.applied, self.loader.provenance.offset + 1)
        self.committed = max(self.committed, at.offset + 1)
        self._restoring = at, self.loader.load_snapshot_slices(at, records, RECORDS_PER_SLICE)
        self._restore_slice(*self._restoring)

    def close(self) -> None:
        """Give up what is being loaded. Idempotent."""
        self._restoring = self._large = None

    def _restore_slice(self, at: Provenance, slices: Iterator[None]) -> None:
        for _ in slices:
            return  # there is more
        self._restoring = None
        self.applied, self.epoch = at.offset + 1, at.epoch

    def advance(self, now_ms: int) -> Iterator[Numbered]:
        """Load a slice of the committed batches; yields (offset, record) of what is in the image.

        A slice ends with a batch, or is one of a large batch, of which only the last yields
        anything; one of a snapshot yields nothing. Raises LoaderError,
        RecordError, CorruptBatchError, SnapshotError: the node must stop.
        """
        if self._restoring is not None:
            self._restore_slice(*self._restoring)
            return
        self._now_ms = now_ms
        start = self.applied
        batches = [] if self._large is not None else self._slice()
        if self._large is not None:
            for _ in self._large.slices:
                return  # there is more
            batches = [self._large.batch._replace(records=tuple(self._large.records))]
            self._large = None
        elif batches:
            self.loader.load_batches(batches, now_ms)
        else:
            self.committed = start  # a high watermark inside a batch: nothing to load yet
            return
        last = batches[-1]
        self.applied, self.epoch = last.last_offset + 1, last.epoch
        self._trace(
            "apply",
            {"off": self.applied, "n": self.applied - start, "st": self.image.digest},
        )
        end = self.image.end_offset
        for batch in batches:
            for offset, record in batch.records:
                if offset < end:
                    yield offset, record

    def _slice(self) -> list[CommittedBatch]:
        """The next batches; none when there is none, or when the next one is ``_large``."""
        batches: list[CommittedBatch] = []
        count = 0
        if self.is_behind:
            for batch in self._log.batches(self.applied, self.committed):
                if batch.last_offset >= self.committed or count >= RECORDS_PER_SLICE:
                    break
                size = batch.last_offset - batch.base_offset + 1
                large = size > RECORDS_PER_SLICE and not batch.is_control
                read = None if large else CommittedBatch.of(batch)
                if read is None or self._changes_many(read):
                    if not batches:
                        self._begin_large(batch)
                    break
                batches.append(read)
                count += size
        return batches

    def _changes_many(self, batch: CommittedBatch) -> bool:
        """Tell whether a single record of a batch changes very many partitions."""
        for _, record in batch.records:
            if isinstance(record, ClearElrRecord):
                return self.image.eligible_count > RECORDS_PER_SLICE
        return False

    def _begin_large(self, batch: Batch) -> None:
        head, records = CommittedBatch.without_records(batch), list[Numbered]()
        slices = self.loader.load_batch_slices(
            head, _kept(decoded(batch), records), RECORDS_PER_SLICE, self._now_ms
        )
        self._large = _Large(head, records, slices)


def _kept(records: Iterable[Numbered], kept: list[Numbered]) -> Iterator[Numbered]:
    """Give the records, and add each to ``kept`` when it is taken."""
    for record in records:
        kept.append(record)
        yield record
