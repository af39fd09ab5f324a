"""The state machine: committed batches of the log go to the metadata loader, a slice at a time.

A node that restarts with a million records must not go silent until it has folded them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from node.loading.committed import CommittedBatch, Provenance
from node.loading.loader import MetadataLoader
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.file_log import FileLog
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord

RECORDS_PER_SLICE = 1_000

Trace = Callable[[str, Mapping[str, Any]], None]


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

    @property
    def image(self) -> MetadataImage:
        """The image, the same object for as long as the node lives."""
        return self.loader.image

    @property
    def is_behind(self) -> bool:
        """Whether there are committed records to load, or more of a snapshot."""
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
        self.applied = min(self.applied, self.loader.provenance.offset + 1)
        self.committed = max(self.committed, at.offset + 1)
        self._restoring = at, self.loader.load_snapshot_slices(at, records, RECORDS_PER_SLICE)
        self._restore_slice(*self._restoring)

    def close(self) -> None:
        """Give up a snapshot that is being loaded. Idempotent."""
        self._restoring = None

    def _restore_slice(self, at: Provenance, slices: Iterator[None]) -> None:
        for _ in slices:
            return  # there is more
        self._restoring = None
        self.applied, self.epoch = at.offset + 1, at.epoch

    def advance(self, now_ms: int) -> Iterator[tuple[int, MetadataRecord]]:
        """Load a slice of the committed batches; yields (offset, record) of what is in the image.

        A slice ends with a batch; one of a snapshot yields nothing. Raises LoaderError,
        RecordError, CorruptBatchError, SnapshotError: the node must stop.
        """
        if self._restoring is not None:
            self._restore_slice(*self._restoring)
            return
        start = self.applied
        batches = self._slice()
        if not batches:
            self.committed = start  # a high watermark inside a batch: nothing to load yet
            return
        last = batches[-1]
        self.loader.load_batches(batches, now_ms)
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
        batches: list[CommittedBatch] = []
        count = 0
        if self.is_behind:
            for batch in self._log.batches(self.applied, self.committed):
                if batch.last_offset >= self.committed or count >= RECORDS_PER_SLICE:
                    break
                batches.append(CommittedBatch.of(batch))
                count += batch.last_offset - batch.base_offset + 1
        return batches
