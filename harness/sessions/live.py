"""One run from its spec to its report: the order of everything around ``harness.run.runner``.

Whatever goes wrong on the way, the history and what was collected are judged and reported; a
crash of ours is an axis of the verdict, never a reason to lose what was seen.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from traceback import format_exception, format_exception_only, print_exception
from typing import Any

from harness import seeds
from harness.clock import LoopClock
from harness.contracts.abilities import LeavesEvents
from harness.contracts.environment import Environment
from harness.contracts.hosts import Expects, Mirrors
from harness.contracts.moments import Tell
from harness.contracts.nemesis import Cluster, Fault
from harness.contracts.system import System
from harness.errors import HarnessError
from harness.faults.choice import asked_for
from harness.healing.journal import Journal
from harness.history.events import EventCollector
from harness.registry import checkers, environments, systems, workloads
from harness.run.judge import Judgement, conclude, judge
from harness.run.recorder import Progress, Silence
from harness.run.runner import RunOptions, RunPlan, RunResult
from harness.run.runner import run as run_plan
from harness.sessions.plan import Plan, checkers_of, left_out
from harness.spec import RunSpec
from harness.store.ballast import Ballast, tells_full_disk
from harness.store.folder import RunDir, Store
from harness.store.origin import Origin
from harness.store.reading import StoredRun, load_run
from harness.verdict import (
    EXIT_ABORTED,
    EXIT_UNKNOWN,
    EXIT_VALID,
    Anomaly,
    CheckResult,
    Valid,
    merge,
)


@dataclass(slots=True)
class Session:
    """A run being prepared, running, or done."""

    plan: Plan
    run_dir: RunDir
    late: Sequence[Fault] = ()  # faults that the last round added to the schedule
    roles: Callable[[], Mapping[str, str]] = field(default=dict)  # live status: role per node
    result: RunResult | None = None
    judgement: Judgement | None = None
    crash: str | None = None
    traceback: str | None = None  # of what broke the harness, or of what broke next

    @property
    def spec(self) -> RunSpec:
        """The options, with the nemeses' own names."""
        return self.plan.spec

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The schedule, and what the last round added to it."""
        return (*self.plan.faults, *self.late)

    def live_roles(self) -> Mapping[str, str]:
        """The role of each node now, as far as its events tell; empty before the system is up."""
        return self.roles()

    @property
    def interrupted(self) -> bool:
        """Tell whether the run was cut short by a signal; what it did until then is judged."""
        return self.result is not None and self.result.interrupted

    @property
    def undecided(self) -> Mapping[str, str]:
        """The checkers that cannot judge such a run, each with what it does not leave behind."""
        return left_out(self.spec, self.plan.workload)

    @property
    def aborted(self) -> str | None:
        """Why the system was let go of, when it was."""
        return None if self.result is None else self.result.aborted

    @property
    def exit_code(self) -> int:
        """The exit code of the judged run; of an aborted one, unless worse came of it, its own."""
        assert self.judgement is not None, "judged before asked"  # noqa: S101
        code = self.judgement.exit_code
        return EXIT_ABORTED if self.aborted and code in (EXIT_VALID, EXIT_UNKNOWN) else code

    def summary(self) -> dict[str, Any]:
        """One JSON object for machines: verdict, anomalies, coverage, store and figures."""
        assert self.judgement is not None, "judged before asked"  # noqa: S101
        data = self.judgement.to_json()
        del data["results"]  # they lie in results.json
        return {
            "verdict": str(verdict(self.judgement)),
            **data,
            "seed": self.spec.seed,
            "id": self.run_dir.id,
            "store": self.run_dir.told,
            "report": f"{self.run_dir.told}/{self.run_dir.report.name}",
            "ops": dict(self.result.counts) if self.result is not None else {},
            "interrupted": self.interrupted,
            "aborted": self.aborted,
            "undecided": dict(self.undecided),
            "harness_error": self.crash,
        }


def verdict(judgement: Judgement) -> Valid:
    """The one word for a judged run; a broken harness makes it unknown unless it is invalid."""
    if judgement.system is Valid.INVALID or judgement.harness_ok:
        return merge((judgement.system, judgement.coverage))
    return Valid.UNKNOWN


def prepare(
    spec: RunSpec,
    store: Store,
    *,
    faults: Sequence[Fault] | None = None,
    origin: Origin | None = None,
) -> Session:
    """Plan a run and make its folder; nothing is started.

    Args:
        spec: The options.
        store: Where the run goes.
        faults: A schedule to replay instead of drawing one from the seed.
        origin: The command that makes the run; ``run`` when not given.

    Raises:
        UsageError: An unknown name, a bad setting, or options that cannot go together.
    """
    plan = Plan.of(spec, faults)
    run_dir = store.new_run(plan.spec, origin)
    run_dir.write_schedule(plan.faults)
    return Session(plan, run_dir)


def execute(
    session: Session, *, progress: Progress | None = None, state_dir: Path | None = None
) -> Session:
    """Run a prepared session, collect what it left, judge it and write the report.

    Raises:
        HarnessError: The environment or the system did not come up: nothing was run. Everything
            started is stopped again, and the run is stored as one of which the harness broke.
    """
    ballast = Ballast(session.run_dir.path)
    try:
        with _uninterrupted_start(asyncio.Runner()) as runner:
            runner.run(_execute(session, progress or Silence(), state_dir))
    except HarnessError as error:
        _judge_unstarted(session, str(error))
        raise
    finally:
        if ballast.drop() and session.crash is None:
            session.crash = f"the disk of {session.run_dir.path}: {os.strerror(errno.ENOSPC)}"
    # the judge forks, which only a process without an event loop should do
    session.judgement = judge_run(session.run_dir, crash=session.crash, traceback=session.traceback)
    return session


def _judge_unstarted(session: Session, reason: str) -> None:
    """Judge a run that never began: its results say why, and its report does.

    The disk may be what was wrong; then the error that is raised has to do.
    """
    try:
        session.judgement = judge_run(session.run_dir, crash=f"the run did not start: {reason}")
    except OSError as error:
        _note_crash(session, "judge the run that did not start", error)


def _uninterrupted_start(runner: asyncio.Runner) -> asyncio.Runner:
    """Make its loop while no Ctrl-C can leave half of one behind; one that comes waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        runner.get_loop()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return runner


async def _execute(session: Session, progress: Progress, state_dir: Path | None) -> None:
    spec, run_dir = session.spec, session.run_dir
    journal = Journal.open(run_dir.path.name, folder=state_dir)
    try:
        environment: Environment = environments.get(spec.env)(run_dir.path, journal)
        if isinstance(environment, Expects):
            environment.expect(asked_for(session.plan.nemeses), seeds.rng(spec.seed, "hosts"))
        system: System = systems.get(spec.system)(spec, environment, run_dir)
        await _run(session, environment, system, progress)
    finally:
        journal.close()


def judge_run(
    run_dir: RunDir, *, crash: str | None = None, traceback: str | None = None
) -> Judgement:
    """Judge a stored run (anew) and write ``results.json`` and ``report.html``.

    By the checkers that judged it before, if any has. A crash of the harness that an earlier
    judgement knows of is still one, and what else that one knows is kept: its traceback, say.
    """
    stored = load_run(run_dir.path)
    before = stored.results or {}
    crash = crash or next(iter(before.get("harness_reasons", ())), None)
    chosen = judges(stored)
    if tells_full_disk(crash):  # traces and logs have holes then, and nodes died of our disk
        chosen = [name for name in chosen if not checkers.needs(name)]
    judgement = judge(stored.data, chosen, harness_reason=crash)
    if told := as_told(stored):
        judgement = conclude([*judgement.results, *told], crash)
    spec = stored.data.spec
    results = {
        **before,
        **judgement.to_json(),
        **({} if traceback is None else {"harness_traceback": traceback}),
        "undecided": left_out(spec, workloads.get(spec.workload)(spec)),
        "warnings": list(stored.warnings),
        "versions": {
            "krucible": version("krucible"),
            "python": platform.python_version(),
            **systems.traits(stored.data.spec.system).of(stored.data.spec).versions,
        },
    }
    run_dir.write_results(results)
    run_dir.write_report()
    return judgement


def judges(stored: StoredRun) -> list[str]:
    """The checkers that judged a run; when nobody has, those that can."""
    told = [each["checker"] for each in _told(stored)]
    if told:
        known = set(checkers.names())
        return [name for name in told if name in known]
    spec = stored.data.spec
    return checkers_of(spec, workloads.get(spec.workload)(spec))


def as_told(stored: StoredRun) -> list[CheckResult]:
    """Results by what is no checker, and cannot judge again: a simulation that could not go on."""
    known = set(checkers.names())
    return [
        CheckResult(
            each["checker"],
            Valid(each["valid"]),
            tuple(
                Anomaly(a["invariant"], a["message"], time_ns=a.get("time_ns"))
                for a in each["anomalies"]
            ),
            reason=each["reason"],
        )
        for each in _told(stored)
        if each["checker"] not in known
    ]


def _told(stored: StoredRun) -> Sequence[Mapping[str, Any]]:
    return (stored.results or {}).get("results") or ()


async def _run(
    session: Session, environment: Environment, system: System, progress: Progress
) -> None:
    clock = LoopClock()
    collector: EventCollector | None = None
    try:
        progress.on_phase(f"prepare {session.spec.env}")
        await environment.setup(system.nodes)
        sources = system.event_files() if isinstance(system, LeavesEvents) else {}
        if sources:
            one_host = not isinstance(environment, Mirrors)
            folder = session.run_dir.events_dir
            collector = EventCollector(sources, folder, clock, one_host=one_host)
            collector.start()
            session.roles = partial(_roles, system, collector)
        progress.on_phase("open")
        await system.setup()
        plan = RunPlan(
            session.spec,
            session.plan.workload,
            Cluster(system, environment),
            session.plan.faults,
            session.plan.nemeses,
            partial(_keep_late, session),
            None if collector is None else _LiveMoments(collector),
        )
        session.result = await run_plan(
            plan,
            session.run_dir.history,
            clock=clock,
            options=RunOptions(settle_s=session.spec.settle_s),
            progress=progress,
        )
        session.crash = session.crash or session.result.crash
        session.traceback = session.traceback or session.result.crash_trace
    finally:
        await _uninterrupted(session, _end(session, environment, system, collector))


@dataclass(frozen=True, slots=True)
class _LiveMoments:
    """``Moments`` of real nodes: what the collector has read of their events, a little later."""

    collector: EventCollector

    def watch(self, tell: Tell | None) -> None:
        """See ``Moments``."""
        self.collector.watch(tell)

    def begin(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """See ``Moments``."""
        return asyncio.create_task(work, name=name)


def _keep_late(session: Session, added: Sequence[Fault]) -> None:
    """Save what the last round adds to the schedule, before it is played: we may be killed then.

    A full disk costs no more than that.
    """
    session.late = added
    try:
        session.run_dir.write_schedule(session.faults)
    except OSError as error:
        _note_crash(session, "save the late faults in the schedule", error)


async def _uninterrupted(session: Session, work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` although we are cancelled meanwhile: half a teardown would leave nodes.

    A Ctrl-C in it comes too late to shorten a run that has ended; without one it is passed on.
    """
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                break
            cancelled = True
    task.result()
    if not cancelled:
        return
    if session.result is None:
        raise asyncio.CancelledError
    session.result.interrupted = True


async def _end(
    session: Session,
    environment: Environment,
    system: System,
    collector: EventCollector | None,
) -> None:
    """Stop everything in order; what fails is the harness's crash, and the rest still happens."""
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("stop the system", system.teardown),
        ("stop the environment", environment.teardown),
    ]
    if collector is not None:
        steps.append(("collect events", collector.stop))
    for what, step in steps:
        try:
            await step()
        except Exception as error:
            _note_crash(session, what, error)
    try:
        system.collect()
    except Exception as error:
        _note_crash(session, "collect logs", error)


def _roles(system: System, collector: EventCollector) -> dict[str, str]:
    """Tell what each node last said it was; a follower outside the voters is an observer."""
    roles = {}
    for node, status in collector.status.items():
        role = status.role or "starting"
        roles[node] = "observer" if role == "follower" and node in system.observers else role
    return roles


def _note_crash(session: Session, what: str, error: Exception) -> None:
    text = f"could not {what}: {format_exception_only(error)[-1].strip()}"
    session.crash = session.crash or text
    session.traceback = session.traceback or "".join(format_exception(error))
    if not isinstance(error, HarnessError | OSError):
        print_exception(error)
