"""The clock seam of the node: a real side here, a virtual one under the simulator."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time for driver and broker."""

    def now_ms(self) -> int:
        """Milliseconds for the consensus timers; never runs backward on the real side."""
        ...

    def trace_ns(self) -> int:
        """Nanoseconds for the event trace, comparable between the nodes of one host."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for record timestamps."""
        ...


class SystemClock:
    """The host's clocks. Kafka's timers follow the wall clock; ours follow the monotonic one, so a
    clock that is set does not stall or fire them.
    """  # noqa: D205 - one sentence, two lines

    def now_ms(self) -> int:
        """CLOCK_MONOTONIC in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def trace_ns(self) -> int:
        """CLOCK_MONOTONIC in nanoseconds."""
        return time.monotonic_ns()

    def cpu_ns(self) -> int:
        """CPU time of this thread in nanoseconds."""
        return time.thread_time_ns()

    def wall_ms(self) -> int:
        """CLOCK_REALTIME in milliseconds."""
        return time.time_ns() // 1_000_000
