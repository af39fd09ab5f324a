"""The committed log folded into the metadata image, to compare with what nodes say they have.

The fold is the node's own image class run by the checker over the log found on disk. It catches
a node that applied something else, in another order, or twice; a wrong rule of the image itself
shows in the workloads' checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.protocols import LogBatch, RunData
from node.metadata.image import ImageError, MetadataImage
from node.metadata.records import RecordError, from_json
from node.metadata.transactions import Transactions

Record = Mapping[str, Any]


class Fold(Protocol):
    """State folded from records; ``digest`` is equal for equal states."""

    @property
    def digest(self) -> str:
        """Fingerprint of the state."""
        ...

    def apply(self, record: Record, offset: int) -> None:
        """Fold in one record as JSON.

        Raises:
            RecordError: It is no record that can be read.
            ImageError: It does not fit the state.
        """
        ...


class MetadataFold:
    """The metadata image of our node."""

    def __init__(self) -> None:
        self._image = MetadataImage()
        self._gate = Transactions()

    @property
    def digest(self) -> str:
        """The image's digest, 16 hex digits."""
        return self._image.digest

    def apply(self, record: Record, offset: int) -> None:
        """Decode the record and apply it to the image; those of a transaction at its end."""
        for each, at in self._gate.feed(from_json({"version": 0, **record}), offset):
            self._image.apply(each, at)


MakeFold = Callable[[], Fold]


@dataclass(slots=True)
class Folded:
    """The digest at each batch boundary below ``end``; why the fold ended there, if too early."""

    digests: dict[int, str] = field(default_factory=dict)
    end: int = 0
    unreadable: str | None = None  # the fold could not read a record
    misfit: str | None = None  # a committed record does not fit the state before it


def reference_log(run: RunData) -> Sequence[LogBatch]:
    """The most up-to-date final log of a voter: it holds all that is committed (S11)."""
    logs = [run.logs[node] for node in run.voters if run.logs.get(node)]
    return max(logs, key=lambda log: (log[-1].epoch, log[-1].last), default=())


def fold(log: Sequence[LogBatch], below: int, make: MakeFold = MetadataFold) -> Folded:
    """Fold all whole batches below an offset. O(records)."""
    folded = Folded()
    if log and log[0].base > 0:
        folded.unreadable = f"the log begins at offset {log[0].base}: what was before is not there"
        return folded
    image = make()
    folded.digests[0] = image.digest
    for batch in log:
        if batch.last >= below:
            break
        try:
            _apply(batch, image)
        except RecordError as error:
            folded.unreadable = f"offset {batch.base}: {error}"
            break
        except ImageError as error:
            folded.misfit = f"committed batch at {batch.base} does not fit: {error}"
            break
        folded.end = batch.last + 1
        folded.digests[folded.end] = image.digest
    return folded


def _apply(batch: LogBatch, image: Fold) -> None:
    if batch.control:
        return
    for place, record in enumerate(batch.records):
        offset = record.get("offset")
        image.apply(record, offset if isinstance(offset, int) else batch.base + place)
