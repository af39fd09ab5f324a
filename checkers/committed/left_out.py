"""Follows what a node has that began with a snapshot without eligible leaders.

While the feature is off, snapshots have neither the ELR nor the last known leaders of a partition,
and who reads the log still has them. The two count the epochs of such a partition differently from
the next ClearElrRecord on, as only where there is something to clear a partition is changed.

All snapshots of a time in which the feature is off, up to a ClearElrRecord, lead to one state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checkers.committed.fold import Fold, apply_batch
from harness.contracts.evidence import LogBatch
from node.metadata.features import ELR_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import ImageError, MetadataImage
from node.metadata.records import RecordError
from node.metadata.schemas import ClearElrRecord, MetadataRecord

CLEARS = ClearElrRecord.__name__


@dataclass(slots=True)
class _Times:
    """Tells when another such state begins."""

    _is_off: bool = False  # one was taken, and serves until this changes

    def begins(self, *, leaves_out: bool, clears: bool) -> bool:
        """Tell whether one begins here.

        ``leaves_out``: a snapshot would leave something out; ``clears``: less than before.
        """
        was_off, self._is_off = self._is_off, leaves_out
        return leaves_out and (clears or not was_off)


@dataclass(slots=True)
class LeftOut:
    """Folds the log on from each such state, batch by batch; only when it is asked."""

    _batches: list[LogBatch] = field(default_factory=list)  # from the first such state on
    _begun: list[_Begun] = field(default_factory=list)
    _times: _Times = field(default_factory=_Times)

    def batch(self, batch: LogBatch, fold: Fold) -> None:
        """Take in a batch that the fold has just taken in. O(1), or a copy of the fold."""
        if self._begun:
            self._batches.append(batch)
        clears = any(each["type"] == CLEARS for each in batch.records)
        if self._times.begins(leaves_out=fold.bare_digest() is not None, clears=clears):
            bare = fold.without_eligible()
            end = batch.last + 1
            self._begun.append(_Begun(bare, len(self._batches), {end: bare.digest}))

    def has(self, offset: int, digest: str) -> bool:
        """Tell whether a node that began with such a snapshot has this state at an offset."""
        return any(begun.at(offset, self._batches) == digest for begun in self._begun)


@dataclass(slots=True)
class BareImages:
    """Keeps such states as images, each at the offset that another image has got to."""

    images: list[MetadataImage] = field(default_factory=list)
    _times: _Times = field(default_factory=_Times)

    def apply(self, record: MetadataRecord, offset: int, whole: MetadataImage) -> None:
        """Apply a record that ``whole`` has just got; raises ImageError. O(images)."""
        for image in self.images:
            apply_record(image, record, offset)
        is_off = whole.features.get(ELR_VERSION, 0) == 0 and whole.eligible_count > 0
        if self._times.begins(leaves_out=is_off, clears=isinstance(record, ClearElrRecord)):
            self.images.append(whole.without_eligible())


@dataclass(slots=True)
class _Begun:
    """Folds the log on from one such state, as far as it was asked about."""

    fold: Fold
    place: int  # in the batches: the next one to be folded
    digests: dict[int, str]  # by offset, exclusive

    def at(self, offset: int, batches: list[LogBatch]) -> str | None:
        while self.place < len(batches) and batches[self.place].last < offset:
            batch = batches[self.place]
            self.place += 1
            try:
                apply_batch(batch, self.fold)
            except (RecordError, ImageError):
                self.place = len(batches) + 1  # what does not fit is told of by the fold itself
                break
            self.digests[batch.last + 1] = self.fold.digest
        return self.digests.get(offset)
