"""The state of a simulated process, and the callbacks that belong to it, for the loop.

``VirtualProcess`` changes the state; the loop reads it before each callback.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Final
from weakref import WeakSet

NS_PER_S: Final = 1_000_000_000
PPM: Final = 1_000_000


class ProcessState:
    """Says whether a process runs, what it missed meanwhile, and what its clock shows.

    Args:
        name: What it is called in messages.
        on_error: Told of errors that nobody caught, as an event loop's exception handler.
    """

    def __init__(
        self,
        name: str,
        on_error: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None,
    ) -> None:
        self.name = name
        self.on_error = on_error
        self.alive = True
        self.runs = True  # its callbacks are called: it is not stopped, does not wait, is not dead
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.held: deque[VirtualHandle] = deque()
        self._rate_ppm = PPM
        self._since_ns = 0  # on the loop's clock
        self._local_ns = 0  # on its own, at that time

    def hold(self, handle: VirtualHandle) -> None:
        """Keep a call that is due until the process goes on; the dead get none."""
        if self.alive:
            self.held.append(handle)

    @property
    def keeps_time(self) -> bool:
        """Tell whether the process's steady clock runs as fast as the loop's."""
        return self._rate_ppm == PPM

    def local_ns(self, at_ns: int) -> int:
        """Tell what its steady clock shows at a time of the loop's."""
        return self._local_ns + (at_ns - self._since_ns) * self._rate_ppm // PPM

    def global_ns(self, local_ns: int) -> int:
        """Tell when, on the loop's clock, its steady clock shows at least that."""
        return self._since_ns - (self._local_ns - local_ns) * PPM // self._rate_ppm

    def set_rate(self, rate_ppm: int, now_ns: int) -> None:
        """Make its clock run at ``rate_ppm`` millionths of the true speed from now on."""
        self._local_ns = self.local_ns(now_ns)
        self._since_ns = now_ns
        self._rate_ppm = rate_ppm


RUNNING: ContextVar[ProcessState | None] = ContextVar("krucible-process", default=None)


class VirtualHandle(asyncio.TimerHandle):
    """A callback that is due, now or at a time; ``due_ns`` is on the loop's own clock."""

    __slots__ = ("arguments", "call", "context", "due_ns", "is_cancelled", "process")

    def __init__(  # the parent's fields stay unset: nothing of it is used but the type
        self,
        due_ns: int,
        call: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context,
    ) -> None:
        self.due_ns = due_ns
        self.call = call
        self.arguments = arguments
        self.context = context
        self.process: ProcessState | None = context.get(RUNNING)
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not call."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Tell whether the callback was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Give the time when it is due, in seconds on the loop's own clock."""
        return self.due_ns / NS_PER_S

    def __repr__(self) -> str:
        return f"<{self.call!r} at {self.when()} s>"
