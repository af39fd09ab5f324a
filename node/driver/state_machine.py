"""The state machine: committed records of the log folded into the metadata image.

Work is done in slices of whole batches: a node that restarts with a million records must not go
silent until it has folded them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.core.types import OffsetAndEpoch
from node.log.batch import decode_records
from node.log.file_log import FileLog
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord, decode_record
from node.metadata.transactions import Transactions
from node.trace import Tracer

RECORDS_PER_SLICE = 2_000


class StateMachine:
    """The image of all committed records, and how far it has come.

    ``applied`` is exclusive: records below it are in the image. ``bytes_applied`` counts the bytes
    of all batches applied, control batches too; ``epoch`` is that of the last of them. Records of
    a metadata transaction are in the image when it ends, not before.
    """

    def __init__(self, log: FileLog, trace: Tracer, *, broker: bool) -> None:
        self.image = MetadataImage()
        self.applied = log.start_offset
        self.committed = log.start_offset
        self.bytes_applied = 0
        self.epoch = 0
        self._gate = Transactions()
        self._log = log
        self._trace = trace
        self._broker = broker

    @property
    def is_behind(self) -> bool:
        """Whether there are committed records to apply."""
        return self.applied < self.committed

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open."""
        return self._gate.open

    def commit(self, high_watermark: int) -> None:
        """Records below ``high_watermark`` may be applied."""
        self.committed = max(self.committed, high_watermark)

    def restore(self, records: Iterable[MetadataRecord], snapshot: OffsetAndEpoch) -> None:
        """Begin anew with the content of a snapshot."""
        image = MetadataImage()
        for record in records:
            image.apply(record, image.end_offset)
        image.end_offset = snapshot.offset
        self.image.become(image)
        self._gate = Transactions()
        self.applied, self.epoch = snapshot
        self.commit(snapshot.offset)

    def advance(self, epoch: int) -> Iterator[tuple[int, MetadataRecord]]:
        """Apply a slice of the committed batches; yields (offset, record) as applied."""
        start, count = self.applied, 0
        if start >= self.committed:
            return
        for batch in self._log.batches(start):
            if batch.last_offset >= self.committed or count >= RECORDS_PER_SLICE:
                break
            if not batch.is_control:
                for offset, _, value in decode_records(batch):
                    assert value is not None, f"metadata record {offset} has no value"  # noqa: S101
                    record = decode_record(value)
                    for each, at in self._gate.feed(record, offset):
                        self.image.apply(each, at)
                        yield at, each
            self.applied = batch.last_offset + 1
            self.bytes_applied += len(batch.data)
            self.epoch = batch.epoch
            count += batch.last_offset - batch.base_offset + 1
        if self.applied == start:
            self.committed = start  # a high watermark inside a batch: nothing to apply yet
        else:
            digest = self.image.digest
            self._trace.emit(
                "apply", epoch, {"off": self.applied, "n": self.applied - start, "st": digest}
            )
            if self._broker:
                self._trace.emit("image", epoch, {"off": self.applied, "digest": digest})
