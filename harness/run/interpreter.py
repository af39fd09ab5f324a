"""The interpreter: client processes do what a generator says, and all of it is recorded.

Jepsen's rules. An op is recorded before it is attempted and again when it completes. A process
whose op ended as ``info`` is retired: its thread goes on as process + concurrency with a fresh
client on another node. A client that cannot be opened makes its op ``fail``. An op that takes
longer than its timeout is ``info``. An exception of a client is a programmer's error: it ends
the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from harness.contracts.clients import Client, Outcome
from harness.errors import EnvError, HarnessError
from harness.generators.basic import ENDED, Context, Draft, Generator
from harness.history.ops import Op
from harness.run.guard import GuardedClient
from harness.run.recorder import Recorder

OP_TIMEOUT_S = 5.0
CANCEL_GRACE_S = 5.0  # how long a client may take to notice that its op was cancelled
CANCEL_LOOKS = 5  # in that time; the loop turns between two, so one that stood still is no grace
CLOSE_TIMEOUT_S = 2.0
OPEN_BACKOFF_S = 0.05  # rest of a thread whose client could not be opened
POLL_PENDING_NS = 10_000_000  # how often to ask a generator that waits for nothing we know of

# What a node that is down, cut off or refusing may raise while a client is opened.
OPEN_ERRORS = (OSError, EnvError, Outcome)


@dataclass(slots=True)
class _Thread:
    """A thread: the process on it now, and that process's client."""

    process: int
    work: asyncio.Future[Op]  # the next invocation, already recorded
    client: GuardedClient | None = None
    open: Op | None = None  # the invocation that has not completed
    limit: asyncio.Timeout | None = None  # of what the client does now
    looks: int = 0  # how often it was found still at it although it was cancelled

    def at_most(self, seconds: float) -> asyncio.Timeout:
        """So much time for the client; ``looks`` counts anew."""
        self.limit, self.looks = asyncio.timeout(seconds), 0
        return self.limit


class Interpreter:
    """Runs generators over one set of client processes, one generator after another."""

    def __init__(
        self,
        prototype: Client,
        nodes: Sequence[str],
        concurrency: int,
        recorder: Recorder,
        *,
        op_timeout_s: float = OP_TIMEOUT_S,
    ) -> None:
        if concurrency < 1:
            raise HarnessError(f"concurrency is {concurrency}, want at least 1 client process")
        if not nodes:
            raise HarnessError("the system has no nodes to open clients on")
        self._prototype = GuardedClient(prototype)
        self._nodes = tuple(nodes)
        self._concurrency = concurrency
        self._recorder = recorder
        self._op_timeout_s = op_timeout_s
        self._loop = asyncio.get_running_loop()
        self._all = tuple(range(concurrency))
        self._threads = [_Thread(i, self._loop.create_future()) for i in self._all]
        self._free: dict[int, None] = {}  # in the order in which they became free
        self._generator: Generator = ENDED
        self._wake: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._finished: asyncio.Future[None] = self._loop.create_future()

    async def run(self, generator: Generator) -> None:
        """Do all ops of ``generator``; returns when it has ended and every op has completed.

        When cancelled, or when a client or the generator raises, open ops are recorded as
        ``info`` (error ``interrupted``) before the exception leaves.
        """
        self._generator = generator
        self._free = dict.fromkeys(self._all)
        self._finished = self._loop.create_future()
        for thread in self._threads:
            thread.work = self._loop.create_future()
        tasks = [asyncio.create_task(self._work(i), name=f"client-{i}") for i in self._all]
        for task in tasks:
            task.add_done_callback(self._task_done)
        try:
            self._pump_safely()
            self._watch()
            await self._finished
        finally:
            self._set_timers_off()
            await self._stop(tasks)

    @property
    def left(self) -> Generator:
        """Tell what is left of the generator."""
        return self._generator

    def end(self) -> None:
        """Hand out no op more: ``run`` returns once those under way have completed."""
        self._generator = ENDED
        self._pump_safely()

    async def close(self) -> None:
        """Close all clients; raises HarnessError when one does not let go."""
        closing = asyncio.create_task(self._close_all(), name="close")
        self._finished = self._loop.create_future()
        self._watch()
        try:
            await asyncio.wait((closing, self._finished), return_when=asyncio.FIRST_COMPLETED)
            if not closing.done():
                self._finished.result()  # raises
            await closing
        finally:
            self._set_timers_off()
            closing.cancel()

    async def _close_all(self) -> None:
        for thread in self._threads:
            await self._close_client(thread)

    # ---------------------------------------------------------------- handing out ops

    def _pump_safely(self) -> None:
        """Hand out ops; what the generator raises ends the run."""
        try:
            self._pump()
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise

    def _pump(self) -> None:
        """Hand out ops until no thread is free or the generator has none for now."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while self._free and not self._finished.done():
            ctx = self._context()
            draft, self._generator = self._generator.op(ctx)
            if draft is None:
                if len(self._free) == self._concurrency:
                    self._finished.set_result(None)
                return
            if not isinstance(draft, Draft):
                self._sleep(draft.until_ns)
                return
            self._assign(draft)

    def _sleep(self, until_ns: int | None) -> None:
        """Ask again at ``until_ns``; without one, when an op completes or, none open, soon."""
        if until_ns is None:
            if len(self._free) < self._concurrency:
                return
            # None is open, so only time can change its mind.
            until_ns = self._recorder.clock.now_ns() + POLL_PENDING_NS
        self._wake = self._recorder.clock.call_at_ns(until_ns, self._pump_safely)

    def _assign(self, draft: Draft) -> None:
        if draft.thread not in self._free:
            raise HarnessError(
                f"the generator gave op {draft.f!r} to thread {draft.thread}, "
                f"which is not free (free: {sorted(self._free)})"
            )
        del self._free[draft.thread]
        thread = self._threads[draft.thread]
        invocation = self._recorder.client_op(
            Op(
                index=-1,
                time_ns=-1,
                process=thread.process,
                type="invoke",
                f=draft.f,
                value=draft.value,
                key=draft.key,
                node=self._node_of(thread.process),
            )
        )
        self._generator = self._generator.update(self._context(), invocation)
        thread.open = invocation
        thread.work.set_result(invocation)

    def _context(self) -> Context:
        now_ns = self._recorder.clock.now_ns()
        return Context(now_ns, tuple(self._free), self._all, self._concurrency)

    # ---------------------------------------------------------------- doing ops

    async def _work(self, number: int) -> None:
        """Do one op after another on one thread, until cancelled."""
        thread = self._threads[number]
        while True:
            op = await thread.work
            completion = await self._attempt(thread, op)
            recorded = self._recorder.client_op(completion)
            thread.open = None
            if recorded.type == "info":
                await self._retire(thread)
            elif thread.client is None:
                await asyncio.sleep(OPEN_BACKOFF_S)
            thread.work = self._loop.create_future()
            self._free[number] = None
            self._generator = self._generator.update(self._context(), recorded)
            self._pump()

    async def _attempt(self, thread: _Thread, op: Op) -> Op:
        """The completion of ``op``."""
        limit = thread.at_most(self._op_timeout_s)
        try:
            async with limit:
                if thread.client is None:
                    try:
                        thread.client = await self._prototype.open(op.node or "")
                    except OPEN_ERRORS as error:
                        return op.with_(type="fail", error=f"open: {error!r}")
                return await thread.client.invoke(op)
        except TimeoutError:
            if not limit.expired():
                raise
            if thread.client is None:  # nothing was sent
                return op.with_(type="fail", error="open: timeout")
            return op.with_(type="info", error="timeout")
        finally:
            thread.limit = None

    async def _retire(self, thread: _Thread) -> None:
        """Put the next process on the thread."""
        thread.process += self._concurrency
        await self._close_client(thread)

    async def _close_client(self, thread: _Thread) -> None:
        client, thread.client = thread.client, None
        if client is None:
            return
        limit = thread.at_most(CLOSE_TIMEOUT_S)
        try:
            async with limit:
                await client.close()
        except TimeoutError:
            # A goodbye that a cut link holds up decides nothing: leave the connection behind.
            if not limit.expired():
                raise
        finally:
            thread.limit = None

    def _node_of(self, process: int) -> str:
        return self._nodes[process % len(self._nodes)]

    # ---------------------------------------------------------------- coming to an end

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._fail(error)

    def _watch(self) -> None:
        """End the run when a client does not let go of an op; called from time to time.

        Time alone says nothing: a loop that stands still, as on a loaded host, tells no client of
        its timeout. So what counts is how often it was looked at since it was told.
        """
        late = [t for t in self._threads if t.limit is not None and t.limit.expired()]
        for thread in late:
            thread.looks += 1
            if thread.looks > CANCEL_LOOKS:
                self._fail(HarnessError(self._accusation(thread)))
        pause_s = CANCEL_GRACE_S / CANCEL_LOOKS if late else CANCEL_GRACE_S
        self._watchdog = self._loop.call_later(pause_s, self._watch)

    def _accusation(self, thread: _Thread) -> str:
        """Tell what is wrong with a thread's client."""
        op, limit_s = thread.open, self._op_timeout_s
        if op is None:
            number = thread.process % self._concurrency
            what, limit_s = f"close() of the client on thread {number}", CLOSE_TIMEOUT_S
        else:
            what = f"op {op.index} ({op.f!r} of process {op.process})"
        return (
            f"{what} is still open {CANCEL_GRACE_S} s after its timeout of {limit_s} s: its "
            "client ignores cancellation"
        )

    def _fail(self, error: BaseException) -> None:
        if not self._finished.done():
            self._finished.set_exception(error)

    def _set_timers_off(self) -> None:
        for timer in (self._wake, self._watchdog):
            if timer is not None:
                timer.cancel()
        self._wake = self._watchdog = None

    async def _stop(self, tasks: list[asyncio.Task[None]]) -> None:
        """End the threads; an op that is still open gets its ``info``."""
        for task in tasks:
            task.cancel()
        stuck = set(tasks)
        for _ in range(CANCEL_LOOKS):
            if stuck:
                _, stuck = await asyncio.wait(stuck, timeout=CANCEL_GRACE_S / CANCEL_LOOKS)
        for thread in self._threads:
            if thread.open is not None:
                op, thread.open = thread.open, None
                self._recorder.client_op(op.with_(type="info", error="interrupted"))
                await self._retire(thread)
        if stuck:
            names = ", ".join(sorted(task.get_name() for task in stuck))
            raise HarnessError(
                f"{names} ignore cancellation for {CANCEL_GRACE_S} s: a client swallows "
                "asyncio.CancelledError"
            )
