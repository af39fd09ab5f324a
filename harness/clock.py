"""The clock seam: one monotonic clock for a run, in nanoseconds since its start.

Every wait of the kernel goes through the event loop's own timers, and the clock reads
``loop.time()``. An event loop with virtual time therefore moves the whole kernel with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Tells the run's time and waits for it."""

    def now_ns(self) -> int:
        """Nanoseconds since the start of the run; never goes back."""
        ...

    def call_at_ns(self, when_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call ``callback`` from the event loop at ``when_ns``, at once when that is past."""
        ...

    async def sleep_until_ns(self, when_ns: int) -> None:
        """Return at ``when_ns``, after one turn of the loop when that is past."""
        ...


class LoopClock:
    """The running event loop's clock, with the moment of construction as its zero."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._zero_s = self._loop.time()

    def now_ns(self) -> int:
        """Nanoseconds since construction."""
        # Rounded, not cut: a timer must not find itself a nanosecond before its own time.
        return round((self._loop.time() - self._zero_s) * NS_PER_S)

    def call_at_ns(self, when_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call ``callback`` from the event loop at ``when_ns``, at once when that is past."""
        return self._loop.call_at(self._zero_s + when_ns / NS_PER_S, callback)

    async def sleep_until_ns(self, when_ns: int) -> None:
        """Return at ``when_ns``, after one turn of the loop when that is past."""
        await asyncio.sleep(max(0.0, (when_ns - self.now_ns()) / NS_PER_S))
