"""A write being worked out: its records, which its later parts already see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from node.controller.errors import ApiError, OperationError
from node.controller.operations import AtOffset, Note, Payload, PendingWrite
from node.controller.overlay.state import Overlay
from node.controller.slices import Pace, Slices
from node.core.messages import Records
from node.metadata.records import encode_record
from node.metadata.schemas import MetadataRecord

MAX_RECORDS_PER_BATCH = 10_000
MAX_BYTES_PER_BATCH = 7 * 1024 * 1024  # below the 8 MiB of a batch, with room for headers

Resolve = Callable[[MetadataRecord, int], MetadataRecord]  # (record, its offset) -> the record


class Operation:
    """The records of one write so far, each replayed on the overlay as it is added.

    An atomic one is one batch and refuses what does not fit; else its records are split into
    batches, which may be committed one without the next.
    """

    def __init__(self, overlay: Overlay, *, atomic: bool = True) -> None:
        self.write = PendingWrite(0)
        self.overlay = overlay
        self.notes: list[Note] = []
        self.pace = Pace()
        self._atomic = atomic
        self._batches: list[list[bytes | AtOffset]] = [[]]
        self._bytes = 0  # of the last batch

    @property
    def records(self) -> int:
        """The number of records so far."""
        return sum(map(len, self._batches))

    def add(self, *records: MetadataRecord) -> None:
        """Take in all of ``records`` or none; raises OperationError(POLICY_VIOLATION)."""
        self._add(records, [encode_record(record) for record in records])

    def add_slices(self, records: Iterable[MetadataRecord]) -> Slices[None]:
        """Do as ``add``, in slices; all ``records`` are taken, one by one, before any is replayed.

        Raises:
            OperationError: POLICY_VIOLATION.
        """
        taken, encoded = [], []
        for record in records:
            taken.append(record)
            encoded.append(encode_record(record))
            if self.pace.is_over():
                yield
        self._check_fit(encoded)
        for record, value in zip(taken, encoded, strict=True):
            self._add_one(record, value)
            if self.pace.is_over():
                yield

    def add_at_offset(self, record: MetadataRecord, resolve: Resolve) -> None:
        """Take in a record that says an offset, which ``resolve`` fills in when it is appended."""
        size = len(encode_record(record))
        self._fit(1, size)
        self._batches[-1].append(AtOffset(lambda offset: encode_record(resolve(record, offset))))
        self._bytes += size
        self.overlay.replay(self.write, record)

    def note(self, type_: str, **fields: Any) -> None:
        """Tell the event trace of a decision, should it be committed."""
        self.notes.append((type_, fields))

    def entries(self) -> tuple[Records, ...]:
        """The batches to propose, in this order."""
        payloads: list[Payload] = [tuple(batch) for batch in self._batches if batch]
        self.write.records = self.records
        return tuple([Records(len(payload), payload) for payload in payloads])

    def _add(self, records: Sequence[MetadataRecord], encoded: Sequence[bytes]) -> None:
        self._check_fit(encoded)
        for record, value in zip(records, encoded, strict=True):
            self._add_one(record, value)

    def _check_fit(self, encoded: Sequence[bytes]) -> None:
        if self._atomic:
            self._fit(len(encoded), sum(map(len, encoded)))

    def _add_one(self, record: MetadataRecord, value: bytes) -> None:
        self._fit(1, len(value))
        self._batches[-1].append(value)
        self._bytes += len(value)
        self.overlay.replay(self.write, record)

    def _fit(self, count: int, size: int) -> None:
        """Make room for so many records and bytes."""
        full = len(self._batches[-1]) + count > MAX_RECORDS_PER_BATCH
        if not full and self._bytes + size <= MAX_BYTES_PER_BATCH:
            return
        if self._atomic:
            raise too_large()
        self._batches.append([])
        self._bytes = 0


def too_large() -> OperationError:
    """The refusal of what would not fit into one batch."""
    return OperationError(
        ApiError.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    )
