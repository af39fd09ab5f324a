"""Metadata transactions: the records between their marks count all at once, or never (KIP-868)."""

from __future__ import annotations

from collections.abc import Sequence

from node.metadata.schemas import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from node.metadata.state import ImageError

Applied = Sequence[tuple[MetadataRecord, int]]  # (record, offset)


class Transactions:
    """Holds the records of a transaction back: feed it every record, apply what it returns.

    The marks come through too, as records without state, so that the image's offset moves on.
    While ``open``, no snapshot may be taken: the image is that of ``start``, not of the log's end.
    Make a new gate when a snapshot is loaded.
    """

    def __init__(self) -> None:
        self._held: list[tuple[MetadataRecord, int]] = []

    def copy(self) -> Transactions:
        """A gate of its own that holds back the same."""
        other = Transactions()
        other._held = list(self._held)
        return other

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open, whose records are held back."""
        return bool(self._held)

    @property
    def start(self) -> int | None:
        """The offset of the open transaction's BeginTransactionRecord."""
        return self._held[0][1] if self._held else None

    def feed(self, record: MetadataRecord, offset: int) -> Applied:
        """Take a record; gives what counts from now on: it, nothing, or a whole transaction.

        Raises:
            ImageError: A transaction begins within another, or ends where there is none.
        """
        entry = (record, offset)
        if isinstance(record, BeginTransactionRecord):
            if self._held:
                raise ImageError(f"transaction at {offset} begins within that of {self.start}")
            self._held.append(entry)
            return ()
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if not self._held:
                raise ImageError(f"{type(record).__name__} at {offset} ends no transaction")
            held, self._held = self._held, []
            return [*held, entry] if isinstance(record, EndTransactionRecord) else [entry]
        if self._held:
            self._held.append(entry)
            return ()
        return (entry,)
