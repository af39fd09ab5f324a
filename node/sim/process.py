"""A process on the virtual loop: it runs, is stopped, is continued, is killed; its own clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from node.sim.loop import VirtualHandle, VirtualLoop

PPM: Final = 1_000_000


class VirtualProcess:
    """One process of a simulated host.

    Args:
        loop: Where it lives.
        name: What it is called in messages.
        on_error: Told of errors that nobody caught, as an event loop's exception handler.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        name: str,
        on_error: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None,
    ) -> None:
        self.name = name
        self.on_error = on_error
        self.alive = True
        self.runs = True  # its callbacks are called: it is not stopped, does not wait, is not dead
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.context: Context = copy_context()
        self.context.run(RUNNING.set, self)
        self._loop = loop
        self._stopped = False  # by SIGSTOP
        self._stalls = 0  # waits under way, for a slow disk say
        self._held: deque[VirtualHandle] = deque()
        self._rate_ppm = PPM
        self._since_ns = 0  # on the loop's clock
        self._local_ns = 0  # on its own, at that time

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    # ------------------------------------------------------------------ running

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP froze it, and it may go on."""
        return self.alive and self._stopped

    def do(self, call: Callable[..., object], *args: Any) -> None:
        """Call something in the process, after all that is ready."""
        self._loop.call_soon(call, *args, context=self.context)

    def stop(self) -> None:
        """SIGSTOP: nothing of it runs until ``resume``; what becomes due meanwhile waits."""
        self._stopped = True
        self.runs = False

    def resume(self) -> None:
        """SIGCONT: it goes on, once it waits for nothing else. Idempotent."""
        self._stopped = False
        self._go_on()

    def stall(self, duration_ns: int) -> None:
        """Stand still for a while from the end of the present callback on, as in a slow fsync.

        No signal ends that sooner; several waits at a time last as long as the longest.
        """
        self._stalls += 1
        self.runs = False
        self._loop.call_in_ns(duration_ns, self._recovered, context=Context())

    def _recovered(self) -> None:
        self._stalls -= 1
        self._go_on()

    def _go_on(self) -> None:
        self.runs = self.alive and not self._stopped and not self._stalls
        if self.runs:
            held, self._held = self._held, deque()
            self._loop.make_ready(held)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, not even what cleans up. Idempotent."""
        self.alive = self.runs = False
        self._held.clear()
        self._loop.keep(self)

    def hold(self, handle: VirtualHandle) -> None:
        """Keep a call that is due until the process goes on; the dead get none."""
        if self.alive:
            self._held.append(handle)

    # ------------------------------------------------------------------ its clock

    @property
    def keeps_time(self) -> bool:
        """Whether its steady clock runs as fast as the loop's."""
        return self._rate_ppm == PPM

    def local_ns(self, at_ns: int) -> int:
        """What its steady clock shows at a time of the loop's."""
        return self._local_ns + (at_ns - self._since_ns) * self._rate_ppm // PPM

    def global_ns(self, local_ns: int) -> int:
        """When its steady clock shows at least that."""
        return self._since_ns - (self._local_ns - local_ns) * PPM // self._rate_ppm

    def set_rate(self, rate_ppm: int) -> None:
        """Let its clock run at ``rate_ppm`` millionths of the true speed from now on."""
        if rate_ppm <= 0:
            raise ValueError(f"a clock at {rate_ppm} ppm does not go forward")

        def change() -> None:
            now_ns = self._loop.now_ns
            self._local_ns = self.local_ns(now_ns)
            self._since_ns = now_ns
            self._rate_ppm = rate_ppm

        self._loop.retime(self, change)


RUNNING: ContextVar[VirtualProcess | None] = ContextVar("krucible-process", default=None)
