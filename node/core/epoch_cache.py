"""``EpochCache`` knows where each epoch began: enough to find where two logs diverge.

Source: KIP-101 (leader epoch checkpoint), KIP-595 "Fetch" (diverging epoch).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from node.core.types import OffsetAndEpoch


class EpochCache:
    """The cache keeps the (epoch, start offset) pairs of one log, both strictly increasing.

    Two neighbours may share a start offset: a leader that was elected and wrote nothing.
    """

    def __init__(self, entries: Iterable[tuple[int, int]] = (), before: int = 0) -> None:
        """Take over ``entries``; raises ValueError when they are not in order.

        ``before`` is the epoch of the last record ahead of the log, which a snapshot covers.
        """
        self.before = before
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            if epoch < 0 or start < 0 or (self._epochs and epoch <= self._epochs[-1]):
                raise ValueError(
                    f"epoch cache entry {(epoch, start)!r} does not follow {self.entries[-1:]!r}: "
                    "epochs must rise and nothing may be negative; rebuild it from the log"
                )
            if self._starts and start < self._starts[-1]:
                raise ValueError(
                    f"epoch cache entry {(epoch, start)!r} starts before {self.entries[-1]!r}: "
                    "rebuild it from the log"
                )
            self._epochs.append(epoch)
            self._starts.append(start)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Give all (epoch, start offset) pairs, ascending."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """Give the last epoch that began in this log, else that of the snapshot before it.

        0 without either, as epoch 0 has no records.
        """
        return self._epochs[-1] if self._epochs else self.before

    def assign(self, epoch: int, start: int) -> None:
        """Record that ``epoch`` begins at ``start``; entries that contradict it are dropped.

        Repeating the latest epoch further on changes nothing: only its first offset counts.
        """
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that begin at or above ``offset``, the new log end.

        An epoch beginning exactly there holds no record, so it goes too: kept, it would make the
        log look newer than it is.
        """
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()

    def truncate_from_start(self, offset: int) -> None:
        """Forget what ends before ``offset``, the new log start.

        One entry is kept, moved up to it: a record there may be of an epoch that began earlier.
        """
        first = bisect_right(self._starts, offset) - 1
        if first >= 0:
            del self._epochs[:first], self._starts[:first]
            self._starts[0] = offset

    def epoch_before(self, offset: int) -> int:
        """Give the epoch of the record just below ``offset``, which lies within the log."""
        found = bisect_left(self._starts, offset) - 1
        return self._epochs[found] if found >= 0 else self.before

    def end_offset_for(self, epoch: int, log_end: int) -> OffsetAndEpoch:
        """Find where ``epoch`` ends in this log, with the epoch that was really found.

        The answer names ``epoch`` itself when the log has it (or begins above it), otherwise the
        nearest lower epoch; ``log_end`` is the exclusive end of the log. O(log n).
        """
        if not self._epochs or epoch > self._epochs[-1]:
            return OffsetAndEpoch(log_end, self.latest_epoch)
        if epoch == self._epochs[-1]:
            return OffsetAndEpoch(log_end, epoch)
        higher = bisect_right(self._epochs, epoch)
        found = epoch if higher == 0 else self._epochs[higher - 1]
        return OffsetAndEpoch(self._starts[higher], found)
