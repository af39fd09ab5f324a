"""Pumps work through a node: it queues up, the core is stepped through it, others are told.

Everything happens on one event loop thread. Inputs queue up while a batch of socket reads is
handled, then the pump steps the core through all of them; whatever they want told to others
waits in an outbox until the trace is written, and the log is fsynced once for all of them
(group commit). The outbox leaves *before* that fsync, so that followers copy while the leader
flushes; the core counts the leader only up to what it flushed, so nothing commits early.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from node.core import inputs
from node.core.replica import Replica
from node.driver.held import Counters, Outside
from node.log.file_log import FileLog

log = logging.getLogger("krucible.node")

INPUTS_PER_FLUSH_MAX = 10_000  # what is stepped before one fsync

Work = inputs.Input | Callable[[], None]


class NodeFatalError(Exception):
    """Raised when the node must not go on: its own state contradicts the protocol."""


class Pump:
    """Keeps the queue, the outbox and the timers of a node; the module's text says the order.

    Args:
        replica: Says the epoch for the trace, and when it wants to be woken.
        file_log: Fsynced once for all inputs of a batch, when ``want_flush`` was called.
        step: Steps the core with an input at a time (ms), and runs its effects.
        outside: The trace, the clock, and who is told of a fatal error.
    """

    def __init__(
        self,
        replica: Replica,
        file_log: FileLog,
        step: Callable[[inputs.Input, int], None],
        outside: Outside,
    ) -> None:
        self.replica = replica
        self.counters = Counters()
        self.clock = outside.clock
        self.tracer = outside.trace
        self.started = False
        self.stopped = False
        self.on_halt: list[Callable[[], None]] = []  # called by each ``halt``
        self._log = file_log
        self._step = step
        self._on_fatal = outside.on_fatal
        self._inputs: deque[Work] = deque()
        self._outbox: list[Callable[[], None]] = []
        self._pump_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # on the clock of the core
        self._periodic: dict[str, asyncio.TimerHandle] = {}
        self._flush_wanted = False
        self._tokens = 0
        self._loop = asyncio.get_running_loop()

    # ------------------------------------------------------------------ what others may ask

    def enqueue(self, work: Work) -> None:
        """Queue an input or a call, behind all that is queued already.

        It is done when the present batch of socket reads has been handled.
        """
        self._inputs.append(work)
        if self._pump_handle is None:
            self._schedule_pump()

    def do_next(self, work: Work) -> None:
        """Do this before all that is queued: it says what has become true already."""
        self._inputs.appendleft(work)
        self._schedule_pump()

    def later(self, send: Callable[[], None]) -> None:
        """Do ``send`` once the trace of everything before it is written."""
        self._outbox.append(send)
        if self._pump_handle is None:
            self._schedule_pump()

    def soon(self, work: Work) -> None:
        """Queue ``work`` after a look at the sockets."""
        self._loop.call_soon(self.enqueue, work)

    def want_flush(self) -> None:
        """Fsync the log after the present batch of inputs, and tell the core how far."""
        self._flush_wanted = True

    def new_token(self) -> int:
        """Give a number that no other request, proposal or read of this node has."""
        self._tokens += 1
        return self._tokens

    def trace(self, type_: str, **fields: object) -> None:
        """Trace an event of the present epoch."""
        self.tracer.emit(type_, self.replica.epoch, fields)

    def trace_fields(self, type_: str, fields: Mapping[str, Any]) -> None:
        """Trace an event of the present epoch whose fields are at hand."""
        self.tracer.emit(type_, self.replica.epoch, fields)

    def turn_took(self, wall_ms: float, cpu_ms: float) -> None:
        """Trace a turn of the event loop that was long; see ``node.driver.turns``."""
        if not self.stopped:
            self.trace("turn", ms=round(wall_ms, 1), cpu_ms=round(cpu_ms, 1))

    def every(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        """Queue ``work`` every so often until the node halts."""

        def fire() -> None:
            self.enqueue(work)
            self.every(name, interval_ms, work)

        if not self.stopped:
            self._periodic[name] = self._loop.call_later(interval_ms / 1000, fire)

    def after(self, name: str, delay_ms: int, work: Callable[[], None]) -> None:
        """Queue ``work`` once, unless the node halts before; ``name`` is of one such call."""
        if not self.stopped:
            self._periodic[name] = self._loop.call_later(delay_ms / 1000, self.enqueue, work)

    def now_ms(self) -> int:
        """Read the node's steady clock."""
        return self.clock.now_ms()

    def wall_ms(self) -> int:
        """Read the wall clock: milliseconds since 1970."""
        return self.clock.wall_ms()

    # ------------------------------------------------------------------ lifecycle

    def start(self, begin: Callable[[], None]) -> None:
        """Do ``begin``, and after it whatever was queued before."""
        self.started = True
        self.do_next(begin)

    def halt(self) -> None:
        """Do nothing any more. Idempotent."""
        self.stopped = True
        for handle in (self._pump_handle, self._timer, *self._periodic.values()):
            if handle is not None:
                handle.cancel()
        for tell in self.on_halt:
            tell()

    def fail(self, error: BaseException) -> None:
        """Stop for good: whatever it is, this node must not go on."""
        if self.stopped:
            return
        self.halt()
        log.critical("fatal: %s: %s", type(error).__name__, error, exc_info=error)
        try:
            self.tracer.flush()
        except OSError as lost:
            log.critical("the end of the trace is lost: %s", lost)
        self._on_fatal(error)

    # ------------------------------------------------------------------ the pump

    def _schedule_pump(self) -> None:
        if self._pump_handle is None and self.started and not self.stopped:
            self._pump_handle = self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        if self.stopped:
            return
        try:
            while self._inputs:
                now_ms = self.clock.now_ms()
                for _ in range(min(len(self._inputs), INPUTS_PER_FLUSH_MAX)):
                    self._do(self._inputs.popleft(), now_ms)
                self._flush_if_wanted()
            self._release()
            self._pump_handle = None
            if self._inputs or self._outbox:  # the peers that were answered had more to ask
                self._schedule_pump()
            self._arm_timer()
        except Exception as error:  # whatever it is, this node must not go on
            self.fail(error)

    def _do(self, work: Work, now_ms: int) -> None:
        if callable(work):
            work()
            return
        self.counters.steps += 1
        self._step(work, now_ms)

    def _flush_if_wanted(self) -> None:
        if not self._flush_wanted:
            return
        self._flush_wanted = False
        self._release()
        upto = self._log.flush()
        self.counters.flushes += 1
        # Before all that queued up meanwhile: an input in between might truncate the log.
        self._inputs.appendleft(inputs.LogFlushed(upto))

    def _release(self) -> None:
        """Trace first, then everything that others may see."""
        self.tracer.flush()
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            for send in outbox:
                send()

    # ------------------------------------------------------------------ the core's timer

    def _arm_timer(self) -> None:
        """Wake no later than the core wants; too early does no harm and saves re-arming."""
        deadline_ms = self.replica.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = max(0, deadline_ms - self.clock.now_ms())
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.enqueue(inputs.Tick())
