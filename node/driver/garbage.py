"""Keeps Python's collections of cyclic garbage short, however many objects a node has.

A full collection looks at every object that may be part of a cycle: with a million partitions it
takes half a second, and while an image is being loaded there is one after each quarter more. What
such a collection leaves is alive, and nearly all of it belongs to the image, which has no cycles.
It need not be looked at again: it is frozen, and still goes when nobody refers to it any more. A
cycle among frozen objects would never go, so collections that are short freeze nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

LONG_NS = 10_000_000  # about a hundred thousand objects
FULL = 2  # the oldest generation


class Collections:
    """Hears of each collection as one of ``gc.callbacks``, and freezes what a long one leaves.

    Args:
        cpu_ns: CPU time of this thread, in nanoseconds.
        freeze: Takes all objects there are out of later collections.
    """

    def __init__(
        self,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        freeze: Callable[[], None] = gc.freeze,
    ) -> None:
        self.frozen = 0  # how often
        self._cpu_ns = cpu_ns
        self._freeze = freeze
        self._began_ns = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection begins or ends."""
        if info["generation"] != FULL:
            return
        if phase == "start":
            self._began_ns = self._cpu_ns()
        elif self._cpu_ns() - self._began_ns >= LONG_NS:
            self._freeze()
            self.frozen += 1
