"""Real-time order: what was done before something else was invoked, in one sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar


class Timed(Protocol):
    """An op that was answered; times are of the history's clock."""

    @property
    def invoked_ns(self) -> int:
        """Tell when it was invoked."""
        ...

    @property
    def done_ns(self) -> int:
        """Tell when it was answered."""
        ...


T = TypeVar("T", bound=Timed)


def with_highest_before(ops: Sequence[T], rank: Callable[[T], int]) -> Iterator[tuple[T, T]]:
    """Each op with the highest of those that were done before it was invoked, if any was.

    In the order of invocation; of equals the one that was done first. O(n log n).
    """
    done = sorted(ops, key=lambda op: op.done_ns)
    highest: T | None = None
    place = 0
    for op in sorted(ops, key=lambda op: op.invoked_ns):
        while place < len(done) and done[place].done_ns < op.invoked_ns:
            if highest is None or rank(done[place]) > rank(highest):
                highest = done[place]
            place += 1
        if highest is not None:
            yield op, highest
