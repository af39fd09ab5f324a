"""An event loop in virtual time: callbacks run in a fixed order, and waiting costs nothing.

Several nodes live on one loop, each as a ``VirtualProcess`` that can be stopped, continued and
killed as the operating system does it to a real one. To which process a callback belongs is
written in its context (``contextvars``), which asyncio hands on to all that a callback begins, so
the code of a node knows nothing of it. Sockets, threads and signals do not exist here: whoever
asks for one hears NotImplementedError.
"""

from __future__ import annotations

import asyncio
import gc
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, cast

from node.sim.process_state import NS_PER_S, RUNNING, ProcessState, VirtualHandle
from node.sim.watchdog import CallNeverEndsError, watched

if TYPE_CHECKING:
    _Base = asyncio.BaseEventLoop  # whose missing methods the type checker does not count
else:
    _Base = asyncio.AbstractEventLoop  # whose missing methods raise NotImplementedError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
CALLS_AT_ONE_TIME_MAX: Final = 100_000
BUSY_FOR_NS: Final = 10 * NS_PER_S  # as long must more be called than may be, on the average
OBJECTS_PER_COLLECTION: Final = 100_000  # most of what is made stays, as trace or history

ErrorHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class StalledError(Exception):
    """Raised when the simulation cannot go on: nothing is left to do, or time stands still.

    Or a callback never ends, or so much is done that time goes on too slowly.
    """


class VirtualLoop(_Base):
    """Runs callbacks in the order in which they came, timers by time and then by that order."""

    def __init__(self, calls_per_s_max: float = inf) -> None:
        """Make a loop that may call so often in a simulated second, on the average of ten."""
        self.now_ns = 0
        self.calls = 0  # made so far
        self._ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[int, int, VirtualHandle]] = []
        self._count = 0
        self._kept: list[asyncio.Task[Any]] = []  # of processes: they end only with the loop
        self._running = False
        self._stopping = False
        self._closed = False
        self._on_error: ErrorHandler | None = None
        self._calls_per_s_max = calls_per_s_max
        self._counted_ns = BUSY_FOR_NS  # when the calls are counted next
        self._counted = 0  # calls when they were counted last

    # ------------------------------------------------------------------ time

    def time(self) -> float:
        """Seconds on the clock of the process that asks, or on the loop's own."""
        process = RUNNING.get()
        now_ns = self.now_ns if process is None else process.local_ns(self.now_ns)
        return now_ns / NS_PER_S

    def retime(self, process: ProcessState, change: Callable[[], None]) -> None:
        """Call ``change`` to set the clock of a process; its timers then go by the new clock."""
        local_ns = {
            id(handle): process.local_ns(due_ns)
            for due_ns, _, handle in self._timers
            if handle.process is process
        }
        change()
        for place, (_, number, handle) in enumerate(self._timers):
            if handle.process is process:
                handle.due_ns = max(self.now_ns, process.global_ns(local_ns[id(handle)]))
                self._timers[place] = (handle.due_ns, number, handle)
        heapify(self._timers)

    # ------------------------------------------------------------------ scheduling

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> VirtualHandle:
        """Call after all that is ready already."""
        context = copy_context() if context is None else context  # an empty one is false
        handle = VirtualHandle(self.now_ns, callback, args, context)
        if not self._closed:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> VirtualHandle:
        """Call after ``delay`` seconds of the clock of whoever asks."""
        process = RUNNING.get()
        if context is None and (process is None or process.keeps_time):
            due_ns = self.now_ns + max(0, round(delay * NS_PER_S))
            return self._push(VirtualHandle(due_ns, callback, args, copy_context()))
        return self._at(self._local_now_ns() + round(delay * NS_PER_S), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> VirtualHandle:
        """Call at ``when`` on the clock of whoever asks."""
        return self._at(round(when * NS_PER_S), callback, args, context)

    def call_in_ns(
        self, delay_ns: int, callback: Callable[..., object], *args: Any, context: Context
    ) -> VirtualHandle:
        """Call after a time on the loop's own clock."""
        return self.call_at_ns(self.now_ns + delay_ns, callback, args, context)

    def call_at_ns(
        self,
        due_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
    ) -> VirtualHandle:
        """Call at a time on the loop's own clock, which is not over."""
        handle = VirtualHandle(due_ns, callback, args, context)
        if not self._closed:
            self._count += 1
            heappush(self._timers, (due_ns, self._count, handle))
        return handle

    def _local_now_ns(self) -> int:
        process = RUNNING.get()
        return self.now_ns if process is None else process.local_ns(self.now_ns)

    def _at(
        self,
        local_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> VirtualHandle:
        context = copy_context() if context is None else context
        handle = VirtualHandle(0, callback, args, context)
        process = handle.process
        due_ns = local_ns if process is None else process.global_ns(local_ns)
        handle.due_ns = max(self.now_ns, due_ns)
        return self._push(handle)

    def _push(self, handle: VirtualHandle) -> VirtualHandle:
        if not self._closed:
            self._count += 1
            heappush(self._timers, (handle.due_ns, self._count, handle))
        return handle

    def make_ready(self, handles: deque[VirtualHandle]) -> None:
        """Queue the callbacks that a process has missed, in their order."""
        self._ready.extend(handles)

    # ------------------------------------------------------------------ running

    def run_forever(self) -> None:
        """Run until ``stop``; raises StalledError."""
        if self._running or self._closed:
            raise RuntimeError("the loop runs already, or is closed")
        self._running = True
        before = events._get_running_loop()  # noqa: SLF001 - asyncio offers this to loops
        events._set_running_loop(self)  # noqa: SLF001
        thresholds = gc.get_threshold()
        gc.set_threshold(max(OBJECTS_PER_COLLECTION, thresholds[0]), *thresholds[1:])
        try:
            with watched(lambda: self.calls):
                self._run()
        except CallNeverEndsError as error:
            raise StalledError(f"{error} (at {self.now_ns} ns)") from error
        finally:
            self._running = self._stopping = False
            events._set_running_loop(before)  # noqa: SLF001
            gc.set_threshold(*thresholds)

    def _run(self) -> None:
        ready = self._ready
        calls_until = self.calls + CALLS_AT_ONE_TIME_MAX
        while not self._stopping:
            if not ready:
                before_ns = self.now_ns
                ready.append(self._next_timer())
                if self.now_ns != before_ns:
                    calls_until = self.calls + CALLS_AT_ONE_TIME_MAX
                    if self.now_ns >= self._counted_ns:
                        self._count_calls()
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            process = handle.process
            if process is not None and not process.runs:
                process.hold(handle)
                continue
            self.calls += 1
            try:
                handle.context.run(handle.call, *handle.arguments)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                handle.context.run(
                    self.call_exception_handler,
                    {"message": f"error in {handle!r}", "exception": error, "handle": handle},
                )
            if self.calls > calls_until:
                raise StalledError(f"time stands still at {self.now_ns} ns")

    def _count_calls(self) -> None:
        """Raise StalledError if too much was called since the calls were counted last."""
        since_ns = self.now_ns - self._counted_ns + BUSY_FOR_NS
        per_s = (self.calls - self._counted) * NS_PER_S / since_ns
        if per_s > self._calls_per_s_max:
            raise StalledError(
                f"{per_s:,.0f} calls a second for {since_ns / NS_PER_S:.0f} s, at {self.now_ns} ns:"
                f" {self._calls_per_s_max:,.0f} were too many"
            )
        self._counted, self._counted_ns = self.calls, self.now_ns + BUSY_FOR_NS

    def _next_timer(self) -> VirtualHandle:
        """Move the clock on to the next timer that still counts."""
        timers = self._timers
        while timers:
            due_ns, _, handle = heappop(timers)
            if not handle.is_cancelled:
                self.now_ns = due_ns
                return handle
        raise StalledError(f"nothing is left to do at {self.now_ns} ns")

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future is done; returns its result. Raises StalledError."""
        task: asyncio.Future[T] = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        task.add_done_callback(lambda _: self.stop())
        try:
            self.run_forever()
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # seen: what we raise says more
            raise
        return task.result()

    def stop(self) -> None:
        """End ``run_forever`` after the present callback."""
        self._stopping = True

    def is_running(self) -> bool:
        """Tell whether ``run_forever`` is under way."""
        return self._running

    def is_closed(self) -> bool:
        """Tell whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """End all: what is not finished is dropped and does nothing more."""
        if self._running:
            raise RuntimeError("the loop still runs")
        self._closed = True
        kept, self._kept = [*self._kept, *asyncio.all_tasks(self)], []
        self._ready.clear()  # it may be all that held a task
        self._timers.clear()
        for task in kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            coroutine = task.get_coro()
            if not task.done() and isinstance(coroutine, Coroutine):
                _drop(coroutine)

    # ------------------------------------------------------------------ futures, tasks, errors

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Run a coroutine; one of a process goes no further when that is killed."""
        task = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        process = RUNNING.get() if context is None else context.get(RUNNING)
        if process is not None:
            process.tasks.add(task)
        return task

    def begin(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine outside of all processes, from its start to its first wait at once.

        It may be called in the middle of a process's callback: what the coroutine does before it
        waits comes between two of that callback's lines. (Python 3.12 has it as eager tasks.)
        """
        task = asyncio.Task(coro, loop=self, name=name, context=Context())
        first_step = self._ready.pop()  # queued just now
        interrupted = asyncio.current_task(self)
        if interrupted is not None:
            asyncio.tasks._leave_task(self, interrupted)  # noqa: SLF001 - offered to loops
        try:
            first_step.context.run(first_step.call, *first_step.arguments)
        finally:
            if interrupted is not None:
                asyncio.tasks._enter_task(self, interrupted)  # noqa: SLF001
        return task

    def keep(self, process: ProcessState) -> None:
        """Hold on to what a killed process was doing, lest its clean-up code runs."""
        self._kept += process.tasks
        process.tasks.clear()

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Do it at once: threads would make the order a matter of luck."""
        assert executor is None, "there are no threads here"  # noqa: S101
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def set_exception_handler(self, handler: ErrorHandler | None) -> None:
        """Set who hears of errors that nobody has caught, outside of processes."""
        self._on_error = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tell the process whose error it is, or else whoever asked to be told."""
        if self._closed:
            return
        process = RUNNING.get()
        handler = self._on_error if process is None else process.on_error
        if handler is None:
            self.default_exception_handler(context)
        else:
            handler(self, context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody waits for ends the simulation."""
        error = context.get("exception")
        raise error if isinstance(error, BaseException) else RuntimeError(context["message"])

    def get_debug(self) -> bool:
        """Never: debugging changes the order of things."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: the loop has no debug mode."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: asynchronous generators leave nothing open here."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: the loop has no executor."""


def _drop(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine whose process is dead; nobody hears what its clean-up says."""
    with suppress(Exception, asyncio.CancelledError):
        coroutine.close()
