"""The judge: runs checkers over what a run left behind, and makes one answer of theirs.

Each checker runs in a process of its own, forked so that it sees the run without copying it. One
that raises, dies or outlives its time limit is UNKNOWN with the reason; its process is killed, so
it takes no more of the machine. The answer does not depend on who finished first.
"""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

from harness.contracts.checker import Checker, RunData
from harness.registry import checkers, systems
from harness.run.explained import FINDING, following, rank
from harness.run.guard import guarded_checker
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult, Known, Sighting, Valid, exit_code, merge

CHECKER_TIME_LIMIT_S = 300.0
ANOMALIES_KEPT_MAX = 100
COVERAGE = "coverage"  # the checker whose verdict is an axis of its own
# Fit for every workload.
STANDARD = ("stats", "availability", "log-scan", "refusals", "unanswered", COVERAGE)
_KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of one run: three axes, what each checker said, and what was found."""

    system: Valid
    coverage: Valid
    harness_ok: bool
    results: tuple[CheckResult, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()  # of all checkers, without repeats, at most so many
    anomalies_total: int = 0  # how many there were before any were left out
    harness_reason: str | None = None
    known: Mapping[str, int] = field(default_factory=dict)  # anomalies by finding, beside those

    @property
    def exit_code(self) -> int:
        """The exit code of the run."""
        return exit_code(system=self.system, coverage=self.coverage, harness_ok=self.harness_ok)

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Tell why an axis is not valid: ``checker: reason``."""
        system = [r for r in self.results if r.checker != COVERAGE]
        cover = [r for r in self.results if r.checker == COVERAGE]
        return {
            "system": [f"{r.checker}: {r.reason}" for r in system if r.reason]
            or ([] if system else ["no checker looked at the system"]),
            "coverage": [r.reason for r in cover if r.reason],
            "harness": [self.harness_reason] if self.harness_reason else [],
        }

    def to_json(self) -> dict[str, Any]:
        """The answer as a JSON object."""
        return {
            "system": str(self.system),
            "coverage": str(self.coverage),
            "harness": "ok" if self.harness_ok else "broken",
            **{f"{axis}_reasons": reasons for axis, reasons in self.reasons.items()},
            "exit_code": self.exit_code,
            "anomalies": [anomaly.to_json() for anomaly in self.anomalies],
            "anomalies_total": self.anomalies_total,
            **({"known": dict(self.known)} if self.known else {}),
            "results": [result.to_json() for result in self.results],
        }


def judge(
    run: RunData,
    names: Sequence[str],
    *,
    harness_reason: str | None = None,
    time_limit_s: float = CHECKER_TIME_LIMIT_S,
    jobs: int | None = None,
    lookup: Callable[[str], Checker] = checkers.get,
) -> Judgement:
    """Judge a run by the checkers of those names, each once, in that order.

    Args:
        run: What the run left behind.
        names: Names of checkers; ``coverage`` among them decides the coverage axis.
        harness_reason: Why the harness broke, when it did.
        time_limit_s: How long each checker may take.
        jobs: How many run at a time; one per processor when not given.
        lookup: Where checkers are found by name.

    Raises:
        UnknownPluginError: A name that no checker has; nothing is run then.
    """
    found = {name: guarded_checker(name, lookup(name)) for name in dict.fromkeys(names)}
    results = _run_all(run, found, time_limit_s, jobs or os.cpu_count() or 1)
    return conclude(results, harness_reason, known_of(run.spec))


def judge_here(
    run: RunData, names: Sequence[str], *, harness_reason: str | None = None
) -> Judgement:
    """Judge a run in this process, one checker after the other and without a time limit.

    For short runs by the thousand, as simulations are. Raises UnknownPluginError.
    """
    found = {name: guarded_checker(name, checkers.get(name)) for name in dict.fromkeys(names)}
    results = [_check(name, checker, run) for name, checker in found.items()]
    return conclude(results, harness_reason, known_of(run.spec))


def known_of(spec: RunSpec) -> tuple[Known, ...]:
    """Give the known faults of a run's system."""
    if spec.system not in systems.names():
        return ()
    known = systems.traits(spec.system).of(spec).known
    return tuple(each for each in known if each.applies(spec.nemeses))


def conclude(
    results: Sequence[CheckResult],
    harness_reason: str | None = None,
    known: Sequence[Known] = (),
) -> Judgement:
    """Sum the results of all checkers up; what is ``known`` counts apart."""
    results = following([_without(result, known) for result in results], known)
    told = Counter[str]()
    for sighting in (each for result in results for each in result.known):
        told[sighting.finding] += sighting.times
    system = [r.valid for r in results if r.checker != COVERAGE]
    every = distinct(anomaly for result in results for anomaly in result.anomalies)
    return Judgement(
        system=merge(system) if system else Valid.UNKNOWN,
        coverage=merge(r.valid for r in results if r.checker == COVERAGE),
        harness_ok=harness_reason is None,
        results=tuple(map(_capped, results)),
        anomalies=tuple(every[:ANOMALIES_KEPT_MAX]),
        anomalies_total=len(every),
        harness_reason=harness_reason,
        known=dict(told),
    )


def _without(result: CheckResult, known: Sequence[Known]) -> CheckResult:
    """Leave known anomalies out of a result, which tells how often and where each was seen.

    An anomaly that is known and ``red`` stays in the result, with the finding in its details.
    """
    left = list[Anomaly]()
    seen = {(each.invariant, each.finding): each for each in result.known}
    for anomaly in result.anomalies:
        found = next((each for each in known if each.covers(anomaly)), None)
        if found is None or FINDING in anomaly.details:  # it was counted when it got that
            left.append(anomaly)
            continue
        key = found.invariant, found.finding
        seen[key] = _seen(seen.get(key), found, anomaly)
        if found.red:
            left.append(replace(anomaly, details={**anomaly.details, FINDING: found.finding}))
    valid = result.valid
    if valid is Valid.INVALID and result.anomalies and not left:
        valid = Valid.VALID if result.reason is None else Valid.UNKNOWN
    return replace(result, valid=valid, anomalies=tuple(left), known=tuple(seen.values()))


def _seen(before: Sighting | None, known: Known, anomaly: Anomaly) -> Sighting:
    """Count one more; the earliest is the one that is told."""
    if before is None:
        return Sighting(
            known.invariant, known.finding, known.red, 1, anomaly.message, anomaly.time_ns
        )
    now_ns = anomaly.time_ns
    if now_ns is not None and (before.time_ns is None or now_ns < before.time_ns):
        before = replace(before, message=anomaly.message, time_ns=now_ns)
    return replace(before, times=before.times + 1)


def distinct(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """The anomalies without repeats, in the order in which they became visible.

    Those that nothing explains come first, and what may follow from others last.
    """
    first: dict[tuple[str, str], Anomaly] = {}
    for anomaly in anomalies:
        first.setdefault((anomaly.invariant, anomaly.message), anomaly)
    return sorted(first.values(), key=lambda a: (_rank(a), a.time_ns is None, a.time_ns or 0))


def _rank(anomaly: Anomaly) -> int:
    return rank(anomaly.details)


def _capped(result: CheckResult) -> CheckResult:
    """The result with no more anomalies than are worth showing."""
    total = len(result.anomalies)
    if total <= ANOMALIES_KEPT_MAX:
        return result
    return replace(
        result,
        anomalies=tuple(sorted(result.anomalies, key=_rank)[:ANOMALIES_KEPT_MAX]),
        stats={**result.stats, "anomalies_total": total},
    )


# --------------------------------------------------------------------------- processes


@dataclass(slots=True)
class _Worker:
    """A checker at work."""

    name: str
    process: ForkProcess
    answer: Connection
    deadline_s: float

    def result(self) -> CheckResult:
        """Tell what it sent, or why it sent nothing."""
        try:
            sent: CheckResult = self.answer.recv()
        except (EOFError, OSError):
            self.process.join(_KILL_WAIT_S)
            code = self.process.exitcode
            died = f"was killed by signal {-code}" if code and code < 0 else f"exited with {code}"
            return _unknown(self.name, f"the checker's process {died}")
        return sent

    def close(self) -> None:
        """Make sure the process is gone, and release what was held for it."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.process.close()
        self.answer.close()


@dataclass(slots=True)
class _Pool:
    """The checkers at work and what came of the others."""

    run: RunData
    time_limit_s: float
    workers: dict[Connection, _Worker] = field(default_factory=dict)
    results: dict[str, CheckResult] = field(default_factory=dict)

    def start(self, name: str, checker: Checker) -> None:
        """Set a checker to work."""
        context = get_context("fork")
        answer, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(name, checker, self.run, theirs), daemon=True)
        process.start()
        theirs.close()
        deadline_s = time.monotonic() + self.time_limit_s
        self.workers[answer] = _Worker(name, process, answer, deadline_s)

    def wait(self) -> None:
        """Wait until a checker is done, or has used up its time."""
        soonest_s = min(worker.deadline_s for worker in self.workers.values())
        timeout_s = max(0.0, soonest_s - time.monotonic())
        for ready in connection.wait(list(self.workers), timeout_s):
            assert isinstance(ready, Connection)  # noqa: S101 - we gave it nothing else
            worker = self.workers.pop(ready)
            self.results[worker.name] = worker.result()
            worker.close()
        now_s = time.monotonic()
        for worker in [w for w in self.workers.values() if w.deadline_s <= now_s]:
            del self.workers[worker.answer]
            reason = f"the checker did not end within {self.time_limit_s:g} s and was stopped"
            self.results[worker.name] = _unknown(worker.name, reason)
            worker.close()

    def close(self) -> None:
        """Stop whoever is still at work."""
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()


def _run_all(
    run: RunData, found: dict[str, Checker], time_limit_s: float, jobs: int
) -> list[CheckResult]:
    pool = _Pool(run, time_limit_s)
    waiting = list(found.items())
    gc.freeze()  # collections in the children would touch, and so copy, every page of the run
    try:
        while waiting or pool.workers:
            while waiting and len(pool.workers) < jobs:
                pool.start(*waiting.pop(0))
            pool.wait()
    finally:
        gc.unfreeze()
        pool.close()
    return [pool.results[name] for name in found]


def _work(name: str, checker: Checker, run: RunData, answer: Connection) -> None:
    """Check in the child process, and send the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        answer.send(_check(name, checker, run))
    finally:
        answer.close()


def _check(name: str, checker: Checker, run: RunData) -> CheckResult:
    """Tell what a checker says; one that breaks is a result too."""
    try:
        return replace(checker(run), checker=name)
    except Exception as error:
        raised = "".join(traceback.format_exception_only(error)).strip().splitlines()[0]
        details = {"traceback": traceback.format_exc()}
        return replace(_unknown(name, f"the checker broke: {raised}"), stats=details)


def _unknown(name: str, reason: str) -> CheckResult:
    return CheckResult(name, Valid.UNKNOWN, reason=reason)
