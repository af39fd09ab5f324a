"""The committed log folded into the metadata image, to compare with what nodes say they have.

The fold is the node's own image class run by the checker over the log found on disk. It catches
a node that applied something else, in another order, or twice; a wrong rule of the image itself
shows in the workloads' checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from checkers.committed.reference import Reference
from harness.contracts.evidence import LogBatch, LogSnapshot
from node.metadata.features import ELR_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import ImageError, MetadataImage
from node.metadata.records import RecordError, from_json
from node.metadata.snapshot import image_of_records
from node.metadata.transactions import Transactions

Record = Mapping[str, Any]
BEGINNING = Reference()
TRANSACTION_BEGIN = "BeginTransactionRecord"
# What may change the settings of a topic: by itself, or at the end of its transaction.
_SETTINGS_BY = frozenset({"ConfigRecord", "RemoveTopicRecord", "EndTransactionRecord"})


class Fold(Protocol):
    """State folded from records; ``digest`` is equal for equal states."""

    @property
    def digest(self) -> str:
        """Fingerprint of the state."""
        ...

    def bare_digest(self) -> str | None:
        """The fingerprint without eligible leaders that are switched off; None: there are none."""
        ...

    def without_eligible(self) -> Fold:
        """The same state without eligible leaders, to be folded on by itself."""
        ...

    def open_digest(self) -> str | None:
        """The fingerprint without SCRAM credentials; None: there are none."""
        ...

    def topic_settings(self) -> Mapping[str, str]:
        """The parts of the fingerprint that settings of topics are, by their names."""
        ...

    def load(self, records: Sequence[Record], end: int) -> None:
        """Begin with the records of a snapshot of all below ``end``; raises as ``apply``."""
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
    def image(self) -> MetadataImage:
        """The image itself."""
        return self._image

    @property
    def digest(self) -> str:
        """The image's digest, 16 hex digits."""
        return self._image.digest

    def bare_digest(self) -> str | None:
        """That of the image without ELRs and last known leaders, while they do not count."""
        image = self._image
        if image.features.get(ELR_VERSION, 0) > 0 or image.eligible_count == 0:
            return None
        return image.digest_without_eligible()

    def without_eligible(self) -> MetadataFold:
        """Give a fold of a copy of the image, without ELRs and last known leaders."""
        other = MetadataFold()
        other._image, other._gate = self._image.without_eligible(), self._gate.copy()
        return other

    def open_digest(self) -> str | None:
        """That of the image without SCRAM credentials, if it has some."""
        return self._image.digest_without_passwords() if self._image.scram else None

    def topic_settings(self) -> Mapping[str, str]:
        """Those of the image."""
        return self._image.topic_settings()

    def load(self, records: Sequence[Record], end: int) -> None:
        """Decode the records into a new image."""
        decoded = [from_json({"version": 0, **record}) for record in records]
        self._image = image_of_records(decoded, end)
        self._gate = Transactions()

    def apply(self, record: Record, offset: int) -> None:
        """Decode the record and apply it to the image; those of a transaction at its end."""
        for each, at in self._gate.feed(from_json({"version": 0, **record}), offset):
            apply_record(self._image, each, at)


MakeFold = Callable[[], Fold]


@dataclass(slots=True)
class Folded:
    """The digest at each batch boundary in [begin, end]; why the fold ended there, if too early.

    Where a transaction begins the state stands until it ends: that offset has a digest too.
    ``bare`` has those without eligible leaders, where there are some and they are switched off;
    ``open`` has those without SCRAM credentials, where there are some. ``settings`` has the parts
    of them that are settings of topics, by their names.
    """

    digests: dict[int, str] = field(default_factory=dict)
    bare: dict[int, str] = field(default_factory=dict)
    open: dict[int, str] = field(default_factory=dict)
    settings: dict[int, Mapping[str, str]] = field(default_factory=dict)
    begin: int = 0  # what lies below is in the snapshot that the fold began with
    end: int = 0
    unreadable: str | None = None  # the fold could not read a record
    misfit: str | None = None  # a committed record does not fit the state before it


class Folding:
    """Folds batch by batch; once one cannot be folded nothing is any more, and ``folded`` says why.

    Where there is no state to begin with, nothing is folded either.
    """

    def __init__(self, known: Reference = BEGINNING, make: MakeFold = MetadataFold) -> None:
        self.folded = folded = Folded()
        self.state = make()
        self._settings: Mapping[str, str] = {}
        if known.snapshot is not None:
            if not _load(known.snapshot, self.state, folded):
                return
        elif known.begin is None:
            folded.unreadable = (
                f"the log begins at offset {known.start}, and no snapshot has what was before"
            )
            return
        folded.digests[folded.begin] = self.state.digest
        self._settings = self.state.topic_settings()

    def batch(self, batch: LogBatch) -> None:
        """Fold the next batch. O(its records)."""
        folded = self.folded
        if folded.unreadable is not None or folded.misfit is not None:
            return
        try:
            apply_batch(batch, self.state, folded)
        except RecordError as error:
            folded.unreadable = f"offset {batch.base}: {error}"
            return
        except ImageError as error:
            folded.misfit = f"committed batch at {batch.base} does not fit: {error}"
            return
        folded.end = batch.last + 1
        folded.digests[folded.end] = self.state.digest
        if (bare := self.state.bare_digest()) is not None:
            folded.bare[folded.end] = bare
        if (without := self.state.open_digest()) is not None:
            folded.open[folded.end] = without
        if any(record.get("type") in _SETTINGS_BY for record in batch.records):
            self._settings = self.state.topic_settings()
        if self._settings:
            folded.settings[folded.end] = self._settings


def fold(known: Reference, below: int, make: MakeFold = MetadataFold) -> Folded:
    """Fold the snapshot, if there is one, and all whole batches below an offset. O(records)."""
    folding = Folding(known, make)
    for batch in known.batches(below):
        folding.batch(batch)
    return folding.folded


def loaded(snapshot: LogSnapshot, make: MakeFold = MetadataFold) -> Fold:
    """The state in a snapshot; raises RecordError, ImageError."""
    image = make()
    image.load(snapshot.records, snapshot.end)
    return image


def digest_of(snapshot: LogSnapshot, make: MakeFold = MetadataFold) -> str:
    """The digest of the state in a snapshot; raises RecordError, ImageError."""
    return loaded(snapshot, make).digest


def _load(snapshot: LogSnapshot, image: Fold, folded: Folded) -> bool:
    """Begin with a snapshot; says whether that was possible."""
    try:
        image.load(snapshot.records, snapshot.end)
    except RecordError as error:
        folded.unreadable = f"snapshot {snapshot.end}: {error}"
    except ImageError as error:
        folded.misfit = f"snapshot {snapshot.end} holds no state: {error}"
    folded.begin = folded.end = snapshot.end
    return folded.unreadable is None and folded.misfit is None


def apply_batch(batch: LogBatch, image: Fold, folded: Folded | None = None) -> None:
    """Fold in a committed batch; ``folded`` hears where a transaction begins.

    Raises:
        RecordError: A record cannot be read.
        ImageError: One does not fit the state.
    """
    if batch.control:
        return
    for place, record in enumerate(batch.records):
        offset = record.get("offset")
        at = offset if isinstance(offset, int) else batch.base + place
        if folded is not None and record.get("type") == TRANSACTION_BEGIN:
            folded.digests[at] = image.digest
        image.apply(record, at)
