"""What a node has that began with a snapshot in which eligible leaders were left out.

While the feature is off, snapshots have neither the ELR nor the last known leaders of a partition,
and who reads the log still has them. The two count the epochs of such a partition differently from
the next ClearElrRecord on, as only where there is something to clear a partition is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checkers.committed.fold import Fold, apply_batch
from harness.contracts.evidence import LogBatch
from node.metadata.image import ImageError
from node.metadata.records import RecordError

CLEARS = "ClearElrRecord"


@dataclass(slots=True)
class LeftOut:
    """Folds the log on from each state that such a snapshot may have had; only when it is asked.

    All snapshots of a time in which the feature is off, up to a ClearElrRecord, lead to one state.
    """

    _batches: list[LogBatch] = field(default_factory=list)  # from the first such state on
    _begun: list[_Begun] = field(default_factory=list)
    _is_off: bool = False  # one state was taken, and serves until this changes

    def batch(self, batch: LogBatch, fold: Fold) -> None:
        """Take in a batch that the fold has just taken in. O(1), or a copy of the fold."""
        if self._begun:
            self._batches.append(batch)
        if fold.bare_digest() is None:
            self._is_off = False
        elif not self._is_off or any(each["type"] == CLEARS for each in batch.records):
            self._is_off = True
            bare = fold.without_eligible()
            end = batch.last + 1
            self._begun.append(_Begun(bare, len(self._batches), {end: bare.digest}))

    def has(self, offset: int, digest: str) -> bool:
        """Whether a node that began with such a snapshot has this state there."""
        return any(begun.at(offset, self._batches) == digest for begun in self._begun)


@dataclass(slots=True)
class _Begun:
    """The log as it is folded from one state on."""

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
