"""Does long pieces of work side by side, each in a process that can be watched and ended.

A piece of work is an iterator: what it yields is told while it goes on. One that dies, or outlives
its time, costs nobody else anything; whoever stops listening ends them all. A crew is who does it:
processes of this machine here, workers of a Spark cluster in ``pipeline.crew``.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, Protocol

_CONTEXT = get_context("fork")


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A piece of work, and how long it may take in seconds; None is for ever.

    ``ahead`` is called where processes are forked from, before each; what it has imported, all of
    them have.
    """

    name: str
    work: Callable[[], Iterator[Any]]
    limit_s: float | None = None
    ahead: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """The yield of a job."""

    job: Job
    value: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """A job is over; ``broken`` says what ended it before it was done."""

    job: Job
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class _Failed:
    """Sent in place of a value: the job has raised."""

    reason: str


class _Done:
    """Sent when a job has nothing more to say."""


class Crew(Protocol):
    """Whoever does jobs."""

    @property
    def places(self) -> int:
        """So many jobs at a time."""

    def work_off(self, jobs: Sequence[Job]) -> Generator[Said | Ended]:
        """Do all jobs, and tell of all that comes of them.

        Closing the iterator, or an exception in whoever uses it, ends what still runs.
        """


@dataclass(frozen=True, slots=True)
class Local:
    """So many processes of this machine."""

    places: int

    def work_off(self, jobs: Sequence[Job]) -> Generator[Said | Ended]:
        """Do all jobs in their order; see ``work_off``."""
        return work_off(jobs, self.places)


def work_off(jobs: Sequence[Job], at_a_time: int) -> Generator[Said | Ended]:
    """Do all jobs, so many at a time and in their order; tells of all that comes of them.

    Closing the iterator, or an exception in whoever uses it, kills what still runs.
    """
    waiting, running = list(reversed(jobs)), dict[Connection, _Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                worker = _Worker(waiting.pop(), running)
                running[worker.answers] = worker
            due_s = min((w.deadline_s for w in running.values() if w.deadline_s), default=None)
            wait_s = None if due_s is None else max(0.0, due_s - time.monotonic())
            for answers in connection.wait(list(running), wait_s):
                assert isinstance(answers, Connection)  # noqa: S101 - we gave it nothing else
                told = running[answers].listen()
                if isinstance(told, Ended):
                    running.pop(answers).end()
                yield told
            for answers, worker in list(running.items()):
                if worker.deadline_s is not None and worker.deadline_s <= time.monotonic():
                    running.pop(answers).end()
                    yield Ended(worker.job, f"stopped: it took more than {worker.job.limit_s:g} s")
    finally:
        for worker in running.values():
            worker.end()


class _Worker:
    """A job at work."""

    def __init__(self, job: Job, others: Iterable[Connection]) -> None:
        self.job = job
        if job.ahead is not None:
            job.ahead()
        self.deadline_s = None if job.limit_s is None else time.monotonic() + job.limit_s
        self.answers, theirs = _CONTEXT.Pipe(duplex=False)
        ours = (self.answers, *others)  # the child has copies of them
        self._process: ForkProcess = _CONTEXT.Process(
            target=_do, args=(job, theirs, ours), daemon=True
        )
        # Ctrl-C must not reach the child before it ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def listen(self) -> Said | Ended:
        """The next that it has said."""
        try:
            value = self.answers.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
            return Ended(self.job, f"its process {how}")
        if isinstance(value, _Failed):
            return Ended(self.job, value.reason)
        return Ended(self.job) if isinstance(value, _Done) else Said(self.job, value)

    def end(self) -> None:
        """See that it is gone."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.answers.close()


def _do(job: Job, answers: Connection, ours: Iterable[Connection]) -> None:
    """Work in the child process, and send what comes of it while the parent listens.

    The ends that the parent listens at are closed here: else a killed parent's pipes stayed open.
    """
    for each in ours:
        each.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for value in job.work():
            answers.send(value)
        answers.send(_Done())
    except BrokenPipeError:
        return  # nobody listens any more
    except Exception as error:
        answers.send(_Failed("".join(traceback.format_exception_only(error)).strip()))
