"""A process on the virtual loop: it runs, is stopped, goes on, is killed, and has a clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from node.sim.loop import VirtualLoop
from node.sim.process_state import RUNNING, ProcessState


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
        self.state = ProcessState(name, on_error)
        self.context: Context = copy_context()
        self.context.run(RUNNING.set, self.state)
        self._loop = loop
        self._stopped = False  # by SIGSTOP
        self._stalls = 0  # waits under way, for a slow disk say

    def __repr__(self) -> str:
        return f"<process {self.state.name}>"

    # ------------------------------------------------------------------ running

    @property
    def stopped(self) -> bool:
        """Tell whether SIGSTOP froze the process, which is still alive."""
        return self.state.alive and self._stopped

    def do(self, call: Callable[..., object], *args: Any) -> None:
        """Call something in the process, after all that is ready."""
        self._loop.call_soon(call, *args, context=self.context)

    def stop(self) -> None:
        """SIGSTOP: nothing of it runs until ``resume``; what becomes due meanwhile waits."""
        self._stopped = True
        self.state.runs = False

    def resume(self) -> None:
        """SIGCONT: it goes on, once it waits for nothing else. Idempotent."""
        self._stopped = False
        self._go_on()

    def stall(self, duration_ns: int) -> None:
        """Stand still for a while from the end of the present callback on, as in a slow fsync.

        No signal ends that sooner; several waits at a time last as long as the longest.
        """
        self._stalls += 1
        self.state.runs = False
        self._loop.call_in_ns(duration_ns, self._recovered, context=Context())

    def _recovered(self) -> None:
        self._stalls -= 1
        self._go_on()

    def _go_on(self) -> None:
        state = self.state
        state.runs = state.alive and not self._stopped and not self._stalls
        if state.runs:
            held, state.held = state.held, deque()
            self._loop.make_ready(held)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, not even what cleans up. Idempotent."""
        self.state.alive = self.state.runs = False
        self.state.held.clear()
        self._loop.keep(self.state)

    # ------------------------------------------------------------------ its clock

    def set_rate(self, rate_ppm: int) -> None:
        """Make its clock run at ``rate_ppm`` millionths of the true speed from now on."""
        if rate_ppm <= 0:
            raise ValueError(f"a clock at {rate_ppm} ppm does not go forward")
        state, now_ns = self.state, self._loop.now_ns
        self._loop.retime(state, lambda: state.set_rate(rate_ppm, now_ns))
