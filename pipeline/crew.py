"""A crew of Spark executors: does the jobs of ``harness.processes.crew`` all over a cluster.

Each job is a Spark job of one task, so that an executor takes the next as soon as it is free, and a
slow one does fewer. Spark repeats a task whose executor is lost; what it tells counts when it is
done, so nothing comes twice. A job that is still under way when no other is left, and takes much
longer than they did, is begun a second time elsewhere: whichever is done first counts. Runs that a
job stores come back as parcels, so many of each way to fail at most.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, cloudpickle

from harness.errors import HarnessError
from harness.processes.crew import Ended, Job, Said
from harness.store.folder import Store
from harness.store.parcels import Parcel, delivered
from pipeline import away, luggage
from pipeline.spark import spark_session

SLOW_FROM_S = 20.0  # a job that takes less is never begun again
SLOW_TIMES = 2.0  # of the median of those that are done
LOOK_EVERY_S = 1.0  # for slow ones, and for executors that came or went
PLACES_MAX = 1_000  # jobs at a time

Way = Callable[[Any], str | None]  # names how what a job said failed; None: it did not


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A job under way."""

    job: Job
    group: str  # of Spark's jobs
    began_s: float


class SparkCrew:
    """Executors of a cluster, or of this machine.

    Args:
        context: Spark's; it outlives the crew.
        store: Takes the runs that come back; None: they are dropped.
        kept: So many runs of each way to fail.
        way: Names it.
        archives: The names under which those of ``pipeline.luggage`` were added to ``context``.
    """

    def __init__(
        self,
        context: SparkContext,
        store: Store | None,
        kept: int,
        way: Way,
        archives: Sequence[str] = (),
    ) -> None:
        self._context = context
        self._store = store
        self._kept = kept
        self._way = way
        self._archives = tuple(archives)
        self._failed: Counter[str] = Counter()  # runs that came back, by the way
        self._numbers = itertools.count(1)
        self._proven = False  # whether a job was ever done: else it is not the job that is wrong

    @property
    def places(self) -> int:
        """The processors of all executors that are there now."""
        return max(1, self._context.defaultParallelism)

    def work_off(self, jobs: Sequence[Job]) -> Generator[Said | Ended]:
        """Do all jobs; what one tells comes when it is over. See ``harness.processes.crew.Crew``.

        Closing the iterator cancels what still runs. Raises HarnessError when not even one job can
        be done.
        """
        waiting, running = deque(jobs), dict[Future[list[Any]], _Attempt]()
        done: dict[Job, float] = {}  # with the seconds that it took
        with ThreadPoolExecutor(PLACES_MAX, "spark crew") as pool:
            try:
                while len(done) < len(jobs):
                    for job in self._next(waiting, running, done):
                        attempt = self._attempt(job)
                        running[pool.submit(self._run, attempt)] = attempt
                    for future in wait(running, LOOK_EVERY_S, FIRST_COMPLETED).done:
                        attempt = running.pop(future)
                        if attempt.job not in done:
                            done[attempt.job] = time.monotonic() - attempt.began_s
                            yield from self._told(attempt.job, future)
                            self._cancel(a for a in running.values() if a.job is attempt.job)
            finally:
                self._cancel(running.values())

    def _next(
        self,
        waiting: deque[Job],
        running: Mapping[Future[list[Any]], _Attempt],
        done: Mapping[Job, float],
    ) -> Iterator[Job]:
        """Give the jobs that are begun now: those that wait, then slow ones a second time."""
        free = min(self.places, PLACES_MAX) - len(running)
        while waiting and free > 0:
            free -= 1
            yield waiting.popleft()
        if waiting or not done:
            return
        slow_s = max(SLOW_FROM_S, SLOW_TIMES * median(done.values()))
        times = Counter(attempt.job for attempt in running.values())
        for attempt in list(running.values()):
            took_s = time.monotonic() - attempt.began_s
            if free > 0 and times[attempt.job] == 1 and took_s > slow_s:
                free -= 1
                yield attempt.job

    def _attempt(self, job: Job) -> _Attempt:
        return _Attempt(job, f"krucible {next(self._numbers)} {id(self)}", time.monotonic())

    def _run(self, attempt: _Attempt) -> list[Any]:
        """Have a job done somewhere, and wait for it; in a thread, which Spark knows by itself."""
        context, archives = self._context, self._archives
        context.setJobGroup(attempt.group, attempt.job.name, interruptOnCancel=True)
        payload = cloudpickle.dumps(attempt.job)  # type: ignore[no-untyped-call]
        return context.parallelize([payload], 1).flatMap(lambda p: away.do(p, archives)).collect()

    def _cancel(self, attempts: Any) -> None:
        for attempt in list(attempts):
            self._context.cancelJobGroup(attempt.group)

    def _told(self, job: Job, future: Future[list[Any]]) -> Iterator[Said | Ended]:
        """Hand on what a job told, with its runs where they belong."""
        try:
            *told, (broken, _) = future.result()
        except Py4JError as error:
            if not self._proven:
                raise HarnessError(f"Spark cannot do the work: {_first_line(error)}") from error
            yield Ended(job, f"Spark gave it up: {_first_line(error)}")
            return
        self._proven = True
        for value, parcels in told:
            yield Said(job, self._placed(value, parcels))
        yield Ended(job, broken)

    def _placed(self, value: Any, parcels: Sequence[Parcel]) -> Any:
        """Unpack the runs that came with a value, and say in it where they lie now."""
        if not parcels:
            return value
        way = self._way(value)
        moved: dict[str, str | None] = {}
        for parcel in parcels:
            moved[parcel.path] = None
            if way is not None:
                self._failed[way] += 1
            if self._store is not None and (way is None or self._failed[way] <= self._kept):
                moved[parcel.path] = delivered(parcel, self._store).told
        return _with_store(value, moved)


@contextmanager
def spark_crew(
    master: str, store: Store | None, *, kept: int, way: Way, cache: Path
) -> Iterator[SparkCrew]:
    """Start Spark, with all that a job needs on its way to the executors; stopped at the end.

    Args:
        master: ``local[N]``, or the address of a cluster.
        store: Takes the runs that come back.
        kept: So many of each way to fail.
        way: Names how what a job said failed.
        cache: Keeps what is packed for the next time.
    """
    with (
        TemporaryDirectory(prefix="krucible-luggage-") as folder,
        spark_session("krucible", master, brief=True, cache=cache) as session,
    ):
        context = session.sparkContext
        archives: tuple[str, ...] = ()
        if not master.startswith("local"):
            context.addArchive(str(luggage.pack_needed(cache)))
            context.addArchive(str(luggage.pack_code(Path(folder))))
            archives = (luggage.NEEDED, luggage.CODE)
        yield SparkCrew(context, store, kept, way, archives)


def _with_store(value: Any, moved: Mapping[str, str | None]) -> Any:
    """Give a value whose ``store`` names a run that was moved the new place."""
    if isinstance(value, dict):
        return {**value, "store": moved.get(value.get("store", ""))}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, store=moved.get(getattr(value, "store", "")))
    raise TypeError(f"{type(value).__name__} does not say where its run is stored")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Exception" in line or "Error" in line or "failure" in line]
    return (told or lines or [type(error).__name__])[0]
