"""Operations that are worked out in slices, so that a large one leaves turns to others.

A generator pauses after each slice and returns the outcome. What is small never pauses.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Slices = Generator[None, None, T]

STEPS_PER_SLICE = 1_000


class Pace:
    """Counts the steps of some work, each of about ten microseconds."""

    def __init__(self, size: int = STEPS_PER_SLICE) -> None:
        self._size = size
        self._done = 0

    def is_over(self, steps: int = 1) -> bool:
        """Count some steps; whether a slice has ended with them, after which to pause."""
        self._done += steps
        if self._done < self._size:
            return False
        self._done = 0
        return True


def finish(slices: Slices[T]) -> T:
    """Do all slices at once; returns the outcome."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
