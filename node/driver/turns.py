"""Times the turns of a live node's event loop.

A turn is what the loop does between two looks at its sockets: every callback of it, whoever has
asked for it. While it lasts nobody is answered and no vote is given, so the timeouts of a quorum
must not come near it. In a simulation turns take no time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Protocol

NEWS_MS = 10  # shorter turns are never told, whatever the limit
RISE = 1.25  # a turn below the limit is told when it is so many times as long as all told before

Tell = Callable[[float, float], None]  # (how long it took, CPU time of the thread in it), ms


class TurnClock(Protocol):
    """The clocks that measure turns; ``node.clock.SystemClock`` is one."""

    def trace_ns(self) -> int:
        """Nanoseconds of a steady clock."""
        ...

    def cpu_ns(self) -> int:
        """Nanoseconds of CPU time that this thread has used."""
        ...


class Turns:
    """Times the turns of one event loop, and tells of the long ones.

    Told is each turn over ``limit_ms``, and each that is clearly longer than all before, so the
    longest is known of a node that was never slow, too. ``tell`` is called between two turns.
    """

    def __init__(self, clock: TurnClock, limit_ms: int) -> None:
        self.tell: Tell | None = None
        self.longest_ms = 0.0
        self._clock = clock
        self._limit_ms = limit_ms
        self._told_ms = NEWS_MS / RISE

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose turns are timed."""
        return asyncio.SelectorEventLoop(_TimedSelector(self))

    def took(self, wall_ms: float, cpu_ms: float) -> None:
        """A turn has ended."""
        self.longest_ms = max(self.longest_ms, wall_ms)
        if wall_ms <= self._limit_ms and wall_ms < self._told_ms * RISE:
            return
        if self.tell is not None:
            self._told_ms = max(self._told_ms, wall_ms)
            self.tell(wall_ms, cpu_ms)

    def reading(self) -> tuple[int, int]:
        """Both clocks."""
        return self._clock.trace_ns(), self._clock.cpu_ns()


class _TimedSelector(selectors.DefaultSelector):
    """Knows when a turn begins and ends: it is asked for events in between."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._began = turns.reading()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait; what was before was a turn."""
        (wall_ns, cpu_ns), (began_ns, cpu_began_ns) = self._turns.reading(), self._began
        self._turns.took((wall_ns - began_ns) / 1e6, (cpu_ns - cpu_began_ns) / 1e6)
        ready = super().select(timeout)
        self._began = self._turns.reading()
        return ready
