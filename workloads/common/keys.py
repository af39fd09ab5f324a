"""Names of the keys a workload uses, and which of them were in use last."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from harness.generators.generator import Draft, Generator, each_thread


class Keys:
    """Numbered keys of one run; remembers the highest number that was handed out.

    That is the one thing about the main phase that the final one has to know: faults hit the keys
    that were in use when they struck, and after the last fault those are the last keys.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0

    def name(self, number: int) -> str:
        """The name of key ``number``, which is in use from now on."""
        self._count = max(self._count, number + 1)
        return self.named(number)

    def named(self, number: int) -> str:
        """The name of key ``number``, whether it is in use or not."""
        return f"{self._prefix}{number}"

    def last(self, count: int) -> list[str]:
        """The last ``count`` keys, or as many as there are, newest first."""
        newest = range(self._count - 1, max(0, self._count - count) - 1, -1)
        return list(map(self.named, newest))

    def on_each_thread(self, count: int, make: Callable[[str], Draft]) -> Generator:
        """One op per thread on each of the last ``count`` keys; asks for them when it is run."""

        def op(_: Random, n: int) -> Draft | None:
            names = self.last(count)
            return make(names[n]) if n < len(names) else None

        return each_thread(op)


def groups(concurrency: int, threads_per_key: int) -> int:
    """Tell how many keys are worked on at a time by ``independent``."""
    return max(1, concurrency // threads_per_key)
