"""S34 of writes: those that were acknowledged lie in the log before all that came after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.committed.pruning import Readback, effect_of
from checkers.replay.real_time import with_highest_before
from harness.history.ops import Interval, Op
from harness.verdict import Anomaly


@dataclass(frozen=True, slots=True)
class Placed:
    """An acknowledged write, and the offset where it took effect."""

    invocation: Op
    done: Op
    offset: int

    @property
    def invoked_ns(self) -> int:
        """Tell when it was asked for."""
        return self.invocation.time_ns

    @property
    def done_ns(self) -> int:
        """Tell when it was acknowledged."""
        return self.done.time_ns


def placed(intervals: Sequence[Interval], known: Readback) -> list[Placed]:
    """The acknowledged writes and appends of which a majority of the logs tells one place."""
    asked = Counter(effect for i in intervals if (effect := effect_of(i.invocation)) is not None)
    found = []
    for interval in intervals:
        effect, done = effect_of(interval.invocation), interval.completion
        if effect is None or done is None or done.type != "ok" or asked[effect] > 1:
            continue
        offset = known.agreed.get(effect)
        if offset is not None:
            found.append(Placed(interval.invocation, done, offset))
    return found


def judge_write_order(writes: Sequence[Placed]) -> Iterator[Anomaly]:
    """S34: writes lie in the log as they followed upon each other, over all keys. O(n log n).

    With reads at the leader this shows in what they return; without any, only here.
    """
    for write, before in with_highest_before(writes, lambda write: write.offset):
        if write.offset < before.offset:
            done, first = write.done, before.done
            yield Anomaly(
                "S34",
                f"{done.f} of {done.key} (op {done.index}) is at offset {write.offset}, before op"
                f" {first.index} at {before.offset}, which was acknowledged before that was asked"
                " for",
                ops=(before.invocation.index, first.index, write.invocation.index, done.index),
                time_ns=done.time_ns,
            )
