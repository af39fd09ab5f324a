"""Names runs: by their folder, and by a number that joins can compare."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple, Self

_BYTES = 8


class RunName(NamedTuple):
    """A run's folder below the store, and a hash of that: a signed number of 64 bits.

    That two of a million runs share one has a chance of 3 in 100 million.
    """

    run: str
    run_id: int

    @classmethod
    def of(cls, run: str) -> Self:
        """The name with its number."""
        digest = blake2b(run.encode(), digest_size=_BYTES).digest()
        return cls(run, int.from_bytes(digest, "big", signed=True))
