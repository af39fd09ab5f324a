"""Tries of the shrinker as simulated runs: one at a time, or several in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, Self

from harness.clock import NS_PER_MS, NS_PER_S
from harness.contracts.checker import RunData
from harness.errors import HarnessError
from harness.history.ops import History
from harness.sessions.plan import Plan
from harness.sessions.simulated import OPTIONS, SimRun, save, simulate
from harness.shrink.moves import Candidate, Struck
from harness.shrink.search import CRASH, Failure, HaltedError
from harness.shrink.story import story
from harness.store.folder import Store
from harness.store.origin import Origin
from harness.store.reading import load_results
from harness.verdict import Anomaly, Valid

EXACT = replace(OPTIONS, last_round_s=0.0)  # a candidate has the faults it has, and no others
BRIEF = replace(EXACT, settle_s=0.0, heal_tries=1)
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|[(\[{][^()\[\]{}]*$")
_NUMBER = re.compile(r"\d[\d.]*")
HALT_POLL_S = 0.1
STORY = "story.txt"  # in the run's folder


@dataclass(frozen=True, slots=True)
class Try:
    """The end of a try."""

    failure: Failure | None = None  # None: it did not fail
    broken: str | None = None  # why it could not be judged: something of ours broke


def attempt(candidate: Candidate) -> Try:
    """Simulate a candidate; one that cannot be run at all does not fail."""
    try:
        plan = Plan.simulated(candidate.spec, candidate.faults)
        run = simulate(plan, BRIEF if candidate.brief else EXACT)
    except HarnessError:  # options that do not go together
        return Try()
    except Exception as error:  # told at the end: it must not cost what was found before
        return Try(broken="".join(traceback.format_exception_only(error)).strip())
    failure = failure_of(run)
    if failure is not None or not run.result.phases_ns:  # or a cluster that never came up
        return Try(failure)
    return Try(broken=run.broken)


def failure_of(run: SimRun) -> Failure | None:
    """Tell what a simulated run broke, in the order of time; None when it is not invalid."""
    if run.judgement.system is not Valid.INVALID:
        return None
    began_ns = run.result.phases_ns.get("main", 0)
    healed_ns = run.result.phases_ns.get("heal", run.simulated_ns)
    times: dict[str, float | None] = {}
    for anomaly in run.judgement.anomalies:
        seen_ns = moment_ns(anomaly, run.data)
        at_s = None if seen_ns is None else max(0.0, (seen_ns - began_ns) / NS_PER_S)
        before = times.get(anomaly.invariant)
        times[anomaly.invariant] = at_s if before is None or at_s is None else min(before, at_s)
    found = sorted(times.items(), key=lambda item: (item[1] is None, item[1] or 0.0))
    skipped = [r.fault.id for r in run.result.faults if r.injection.outcome == "skipped"]
    never = [fault.id for fault in run.result.unplayed if fault.trigger is not None]
    return Failure(
        tuple(found),
        issued(run.data.history, healed_ns),
        frozenset((*skipped, *never)),
        struck_at(run, began_ns),
        frozenset(printed(a.message) for a in run.judgement.anomalies if a.invariant == CRASH),
    )


def printed(message: str) -> str:
    """Give what a node printed as it crashed, without numbers and without what is in brackets."""
    text = message.partition(" in line ")[2].partition(": ")[2]
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return _NUMBER.sub("#", text)


def struck_at(run: SimRun, began_ns: int) -> dict[int, Struck]:
    """Tell when and where each fault with a trigger struck, by its id."""
    began: dict[Any, int] = {}
    for op in run.data.history.nemesis():
        if op.f == "inject":
            began.setdefault(op.value.get("id"), op.time_ns)
    return {
        report.fault.id: Struck(
            max(0, began[report.fault.id] - began_ns) // NS_PER_MS,
            next((e["node"] for e in report.injection.evidence if e.get("saw") == "moment"), None),
        )
        for report in run.result.faults
        if report.fault.trigger is not None
    }


def moment_ns(anomaly: Anomaly, data: RunData) -> int | None:
    """Tell when an anomaly became visible; where it does not say, with the last of its evidence."""
    if anomaly.time_ns is not None:
        return anomaly.time_ns
    seen = [event["rx_ns"] for event in anomaly.events if isinstance(event.get("rx_ns"), int)]
    wanted = set(anomaly.ops)
    seen += [op.time_ns for op in data.history if op.index in wanted]
    return max(seen, default=None)


def issued(history: History, until_ns: int) -> int:
    """Tell how many client ops were begun before a moment."""
    return sum(
        op.type == "invoke" and isinstance(op.process, int) and op.time_ns < until_ns
        for op in history
    )


class _GivenUpError(KeyboardInterrupt):
    """The try of this process is given up; only so does it get through an event loop."""


class Pool:
    """A runner of candidates, so many at a time; the results come in the order of asking.

    ``broken`` says of tries in which something of ours broke, why.
    """

    def __init__(self, jobs: int) -> None:
        self.broken: list[str] = []
        self._jobs = jobs
        self._workers = _Workers(jobs) if jobs > 1 else None
        self._begun: dict[bytes, Future[Try]] = {}  # whether they were asked for or not
        self._trying = False  # a try is waited for
        self._halted = False  # and need not be any more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_workers()

    def halt(self) -> None:
        """Give up what is under way, so that HaltedError is raised; for a handler of signals.

        What is tried after that, such as whether the best so far holds, is tried to the end.
        """
        if self._trying and self._workers is None:
            raise _GivenUpError
        self._halted = self._trying

    def __call__(self, candidates: Sequence[Candidate]) -> Iterator[Failure | None]:
        """Try the candidates, a few of them ahead of being asked for; raises HaltedError."""
        for place in range(len(candidates)):
            try:
                self._trying = True
                try:
                    tried = self._try(candidates[place : place + self._jobs])
                finally:
                    self._trying = self._halted = False
            except _GivenUpError as error:
                raise HaltedError from error
            if tried.broken is not None:
                self.broken.append(tried.broken)
            yield tried.failure

    def _try(self, candidates: Sequence[Candidate]) -> Try:
        """Try the first; the others may be begun meanwhile."""
        if self._workers is None:
            return attempt(candidates[0])
        for candidate in candidates:
            key = candidate.fingerprint()
            if key not in self._begun:
                self._begun[key] = self._workers.pool.submit(attempt, candidate)
        trying = self._begun[candidates[0].fingerprint()]
        while not wait((trying,), HALT_POLL_S).done:
            if self._halted:
                self._end_workers()
                raise HaltedError
        return trying.result()

    def _end_workers(self) -> None:
        """Tell what is tried from now on is tried in this process."""
        if self._workers is not None:
            self._workers.end()
            self._workers = None


class _Workers:
    """Processes for tries."""

    def __init__(self, jobs: int) -> None:
        context = get_context("fork")
        self._pids = context.SimpleQueue()
        self.pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_begin_work, initargs=(self._pids,)
        )

    def end(self) -> None:
        """End them, whatever they are at."""
        while not self._pids.empty():
            with suppress(ProcessLookupError):
                os.kill(self._pids.get(), signal.SIGTERM)
        self.pool.shutdown(cancel_futures=True)
        self._pids.close()


def _begin_work(pids: SimpleQueue[int]) -> None:
    """Ctrl-C is the parent's to handle, which then ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pids.put(os.getpid())


@dataclass(frozen=True, slots=True)
class Final:
    """The outcome as a run of the store."""

    run: SimRun
    anomaly: Anomaly
    story: list[str]
    path: Path


def final(
    candidate: Candidate,
    invariant: str,
    store: Store,
    of: str | None = None,
    kept: Mapping[str, Sequence[float]] | None = None,
) -> Final:
    """Simulate the outcome once more, save it with its report and its story.

    ``of`` is the id of the run that was shrunk, where it was a stored one; ``kept`` says how much
    is left of what it had, by name: (left, had).

    Raises:
        HarnessError: It does not fail as it did before: the simulation is not deterministic.
    """
    run = simulate(Plan.simulated(candidate.spec, candidate.faults), EXACT)
    anomaly = next((a for a in run.judgement.anomalies if a.invariant == invariant), None)
    if anomaly is None:
        raise HarnessError(
            f"the shrunk run broke {invariant} when it was tried and does not any more: the "
            "simulation is not deterministic; compare with `krucible sim --seed N --twice`"
        )
    place = save(run, store, Origin("shrink", of))
    lines = story(run.data, anomaly)
    (place.path / STORY).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shrunk = {"kept": {name: list(pair) for name, pair in (kept or {}).items()}, "story": lines}
    place.write_results({**(load_results(place) or {}), "shrunk": shrunk})
    place.write_report()
    return Final(run, anomaly, lines, place.path)
