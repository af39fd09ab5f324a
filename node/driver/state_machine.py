"""The state machine: committed records of the log folded into the metadata image."""

from __future__ import annotations

from collections.abc import Iterator

from node.log.batch import decode_records
from node.log.file_log import FileLog
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord, decode_record
from node.trace import Tracer


class StateMachine:
    """The image of all committed records, and how far it has come.

    ``applied`` is exclusive: records below it are in the image.
    """

    def __init__(self, log: FileLog, trace: Tracer, *, broker: bool) -> None:
        self.image = MetadataImage()
        self.applied = log.start_offset
        self._log = log
        self._trace = trace
        self._broker = broker

    def advance(self, high_watermark: int, epoch: int) -> Iterator[tuple[int, MetadataRecord]]:
        """Apply whole batches below ``high_watermark``; yields (offset, record) as applied."""
        start = self.applied
        for batch in self._log.batches(start):
            if batch.last_offset >= high_watermark:
                break
            if not batch.is_control:
                for offset, _, value in decode_records(batch):
                    assert value is not None, f"metadata record {offset} has no value"  # noqa: S101
                    record = decode_record(value)
                    self.image.apply(record, offset)
                    yield offset, record
            self.applied = batch.last_offset + 1
        if self.applied > start:
            digest = self.image.digest
            self._trace.emit(
                "apply", epoch, {"off": self.applied, "n": self.applied - start, "st": digest}
            )
            if self._broker:
                self._trace.emit("image", epoch, {"off": self.applied, "digest": digest})
