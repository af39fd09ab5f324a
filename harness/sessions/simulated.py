"""One simulated run: the same harness, nodes and checkers as a live one, on a virtual loop.

Everything that is random comes from the seed, and time is the loop's, so that the same spec and
schedule give the same bytes: ``SimRun.trace_sha256`` covers all events of all nodes and all ops.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Context
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from sys import intern
from traceback import extract_tb, format_exception, format_exception_only
from typing import Any

import msgspec

from harness import seeds
from harness.clock import LoopClock
from harness.contracts.checker import RunData, Watch
from harness.contracts.evidence import LogBatch
from harness.contracts.nemesis import Cluster
from harness.envs.sim import hosts as sim
from harness.errors import UsageError
from harness.history.ops import NEMESIS, VIOLATION, History, HistoryWriter, Op
from harness.registry import systems, watches
from harness.run.judge import Judgement, conclude, judge_here, known_of
from harness.run.recorder import OpList, Recorder, Silence
from harness.run.runner import Run, RunOptions, RunPlan, RunResult
from harness.sessions.live import verdict
from harness.sessions.plan import Plan
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir, Store
from harness.store.origin import Origin
from harness.verdict import Anomaly, CheckResult, Known, Valid

OPTIONS = RunOptions(settle_s=5.0)
NOWHERE = RunDir(Path("simulation"))  # no run of the store
LINES_PER_HASH = 64
CALLS_PER_NODE_MAX = 10_000  # callbacks in a second; the busiest healthy seed had 3,000 a node
CALLS_PER_OP_MAX = 200  # likewise, of each op
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class SimRun:
    """A simulation that is over and judged."""

    data: RunData
    result: RunResult
    judgement: Judgement
    trace_sha256: str
    events: int
    simulated_ns: int
    calls: int  # callbacks that the loop made
    stop: Stop | None = None  # the violation that ended it
    traceback: str | None = None  # of what broke in the harness

    @property
    def broken(self) -> str | None:
        """Tell why the harness did not do its work, in one line; None when it did."""
        return self.judgement.harness_reason

    @property
    def verdict(self) -> Valid:
        """The one word for it."""
        return verdict(self.judgement)

    def summary(self) -> dict[str, Any]:
        """One JSON object for machines."""
        judged = self.judgement.to_json()
        del judged["results"]
        return {
            "seed": self.data.spec.seed,
            "verdict": str(self.verdict),
            "trace_sha256": self.trace_sha256,
            "stopped": None if self.stop is None else self.stop.to_json(),
            **judged,
            "events": self.events,
            "simulated_s": self.simulated_ns / 1e9,
            "ops": dict(self.result.counts),
            "faults": len(self.result.faults),
        }


@dataclass(frozen=True, slots=True)
class Stop:
    """The event at which an invariant was first broken, or the last one before an op that did."""

    invariant: str
    message: str
    node: str
    inc: int
    seq: int
    time_ns: int

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object, the value of the history's last op."""
        return asdict(self)


@dataclass(slots=True)
class _Tape:
    """Takes events and ops as they happen, and has them watched; of those after a stop none."""

    watches: Mapping[str, Watch]
    stop_at: tuple[str, ...] | None  # None: anything
    freeze: Callable[[], None]  # called at the event that breaks something
    known: tuple[Known, ...] = ()  # what ends nothing
    turn: Callable[[Mapping[str, Any], int], None] | None = None  # told of each event, by number
    hashed: Any = field(default_factory=hashlib.sha256)  # all lines but those of ``unhashed``
    unhashed: list[bytes] = field(default_factory=list)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ops: OpList = field(default_factory=OpList)
    last: Mapping[str, Any] = field(default_factory=dict)  # the event
    count: int = 0
    stop: Stop | None = None
    broken: Exception | None = None  # raised by a watch, which has not seen all since then
    feeds: list[Callable[[Mapping[str, Any]], Sequence[Anomaly]]] = field(init=False)

    def __post_init__(self) -> None:
        self.feeds = [watch.feed for watch in self.watches.values()]

    @property
    def over(self) -> bool:
        """Tell whether nothing counts any more."""
        return self.stop is not None or self.broken is not None

    def take(self, node: str, line: bytes) -> None:
        """Keep a line of a node's trace, and have it watched."""
        if self.stop is not None or self.broken is not None:  # as ``over``; a call costs more
            return
        self.unhashed.append(line)
        if len(self.unhashed) >= LINES_PER_HASH:
            self._hash()
        event = _decode(line)
        event["rx_ns"] = event["ts"]  # one clock: it arrives as it happens
        event["t"] = intern(event["t"])  # one string of each type for all who ask for it
        self.last = event
        try:
            self.events[node].append(event)
        except KeyError:
            self.events[node] = [event]
        self.count += 1
        if self.turn is not None:
            self.turn(event, self.count)
        try:
            for feed in self.feeds:
                found = feed(event)
                if found:
                    self._violated(event, event["ts"], found)
        except Exception as error:  # of ours, and the node that tells of the event is not at fault
            self._fail(error)

    def sha256(self, *more: bytes) -> str:
        """Give the hash of all lines, and of what comes after them."""
        self.unhashed += more
        self._hash()
        return str(self.hashed.hexdigest())

    def _hash(self) -> None:
        """Hash the lines that wait, in one call: a call for each costs more than the hash."""
        self.hashed.update(b"".join(self.unhashed))
        self.unhashed.clear()

    def hold(self, op: Op) -> None:
        """Keep an op, and have it watched."""
        if self.over:
            return
        self.ops.hold(op)
        try:
            for watch in self.watches.values():
                found = watch.op(op)
                if found:
                    self._violated(self.last, op.time_ns, found)
        except Exception as error:
            self._fail(error)

    def flush(self) -> None:
        """Do nothing: events in memory are lost with the process in any case."""

    def close(self) -> None:
        """Keep no op more."""
        self.ops.close()

    def let_go(self) -> None:
        """Keep nothing more of what was taken."""
        self.watches, self.feeds, self.events, self.ops = {}, [], {}, OpList()

    def _fail(self, error: Exception) -> None:
        if self.broken is None:
            self.broken = error
            self.freeze()

    def _violated(self, event: Mapping[str, Any], time_ns: int, found: Iterable[Anomaly]) -> None:
        wanted = self.stop_at
        found = [a for a in found if not any(each.excuses(a) for each in self.known)]
        first = next((a for a in found if wanted is None or a.invariant in wanted), None)
        if first is not None and self.stop is None:
            place = f"n{event['node']}", event["inc"], event["seq"]
            self.stop = Stop(first.invariant, first.message, *place, time_ns)
            self.freeze()


@dataclass(frozen=True, slots=True)
class _Left:
    """The state at the end of a simulation."""

    result: RunResult
    data: RunData
    trace_sha256: str


# Is told of each event, and when the main phase began, if it did; gives the salt to draw anew with
# from there on.
Fork = Callable[[Mapping[str, Any], int | None], int | None]


def simulate(plan: Plan, options: RunOptions = OPTIONS, fork: Fork | None = None) -> SimRun:
    """Run a plan from its first op to its last heal in virtual time, and judge what it left.

    The invariants that go by events and committed records are watched meanwhile. At the first
    violation of one that ``plan.spec.stop_at`` names, or of any, the simulation ends at once:
    nobody does anything more, and what is judged is how it was at that moment. A simulation that
    cannot go on, because nothing is left to do, a node is never done at one moment, or nodes do
    many times what healthy ones do, is a finding too (L12).

    Whatever of the harness breaks on the way ends the simulation, not its caller: ``SimRun.broken``
    says it, and what was seen until then is judged.

    At the events that ``plan.spec.tape`` names luck is drawn anew, with the salt that stands there.
    ``fork`` may add to the tape while the simulation goes on; what it added is in the spec of the
    outcome, which replays to the same bytes.

    Raises:
        UsageError: The plan is of a run that is not simulated.
    """
    if plan.spec.env != SIM:
        raise UsageError(f"env {plan.spec.env!r}: only a run with env 'sim' can be simulated")
    with _no_collections():
        with ExitStack() as stack:
            stage = _Stage(plan, stack, fork)
            try:
                sim.run(lambda: stage.play(options), _calls_per_s_max(plan.spec))
            except sim.StalledError as error:
                stage.stalled = str(error)
            except Exception as error:
                # InvalidStateError: the loop was halted on purpose before ``play`` was done
                if not (stage.halted and isinstance(error, asyncio.InvalidStateError)):
                    stage.broke(error)
            stage.end()
        judged = stage.judged()
        stage.let_go()
        return judged


def _calls_per_s_max(spec: RunSpec) -> float:
    """Give how many callbacks a simulated second may have: healthy nodes need a third of it."""
    return CALLS_PER_NODE_MAX * (spec.voters + spec.observers) + CALLS_PER_OP_MAX * spec.rate_hz


@cache
def _freeze_once() -> None:
    """Freeze the collector's objects before a process's first run; each time would take 10 ms."""
    gc.freeze()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Have no collection of garbage meanwhile: most of what is made stays until the run is judged.

    Where there is a JVM, JPype would have Python collect all of it, in a thread of Java's, each
    time that Java has collected: a tenth of a second for a run of one minute.
    """
    _freeze_once()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Stage:
    """A simulation under way: what is there to be judged, however it ends."""

    def __init__(self, plan: Plan, stack: ExitStack, fork: Fork | None) -> None:
        self.stalled: str | None = None
        self.halted = False  # on purpose, before all was played
        self._error: Exception | None = None  # of the harness
        self._plan = plan
        self._stack = stack
        self._environment: sim.Sim | None = None  # once it is made
        self._system: Any = None  # likewise
        self._watches = {
            name: watch(plan.spec, plan.faults, self._read_log) for name, watch in watches
        }
        known = known_of(plan.spec)
        self._salts = dict(plan.spec.tape)
        self._fork = fork
        turn = self._turn if self._salts or fork is not None else None
        self._tape = _Tape(self._watches, plan.spec.stop_at, self._freeze, known, turn)
        self._run: Run | None = None
        self._left: _Left | None = None

    def broke(self, error: Exception) -> None:
        """Note what of the harness broke; the first counts."""
        self._error = self._error or error

    async def play(self, options: RunOptions) -> None:
        """Everything that happens in virtual time."""
        plan, spec = self._plan, self._plan.spec
        clock = LoopClock()
        environment = sim.Sim(seeds.rng(spec.seed, "sim", *spec.lucky()), self._tape.take)
        self._environment = environment
        self._stack.enter_context(environment.held)
        self._system = system = systems.get(spec.system)(spec, environment, NOWHERE)
        self._stack.enter_context(environment.output)
        await environment.setup(system.nodes)
        await system.setup()
        cluster = Cluster(system, environment)
        self._run = Run(
            RunPlan(
                spec,
                plan.workload,
                cluster,
                plan.faults,
                plan.nemeses,
                moments=environment.moments,
            ),
            Recorder(self._tape, clock, Silence()),
            options if plan.asked_for else replace(options, last_round_s=0.0),
        )
        await self._run.execute()
        await system.teardown()
        await environment.teardown()

    def _turn(self, event: Mapping[str, Any], number: int) -> None:
        """Draw luck anew where the tape says so, or whoever forks."""
        salt = self._salts.get(number)
        if salt is None and self._fork is not None:
            began_ns = None if self._run is None else self._run.began_ns("main")
            salt = self._fork(event, began_ns)
            if salt is not None:
                spec = self._plan.spec
                tape = (*spec.tape, (number, salt))
                self._plan = replace(self._plan, spec=replace(spec, tape=tape))
        if salt is not None and self._environment is not None:
            self._environment.redraw(salt)

    def _read_log(self, node: str, begin: int, below: int) -> Sequence[LogBatch]:
        read: Sequence[LogBatch] = self._system.read_log(node, begin, below)
        return read

    def _freeze(self) -> None:
        """End the loop as soon as it can be ended; what is done until then does not count.

        The event comes in the middle of what its node does: the disks are looked at after that.
        """
        asyncio.get_running_loop().call_soon(self._halt, context=Context())

    def _halt(self) -> None:
        self.halted = True
        self._left = self._take_stock()
        asyncio.get_running_loop().stop()

    def _take_stock(self) -> _Left:
        plan, tape, system = self._plan, self._tape, self._system
        result = RunResult() if self._run is None else self._run.summary()
        lines = {} if self._environment is None else self._environment.output.lines
        nodes = () if system is None else system.nodes
        ops = list(tape.ops.ops)
        if tape.stop is not None:
            stop = tape.stop
            ops.append(Op(len(ops), stop.time_ns, NEMESIS, "info", VIOLATION, stop.to_json()))
        sha256 = tape.sha256(*(msgspec.json.encode(op.to_json()) for op in ops))
        data = RunData(
            spec=plan.spec,
            history=History(ops),
            events={node: tuple(tape.events.get(node, ())) for node in nodes},
            logs={node: tuple(system.stored_log(node)) for node in nodes},
            snapshots={node: tuple(system.stored_snapshots(node)) for node in nodes},
            voters=() if system is None else system.voters,
            observers=() if system is None else system.observers,
            faults=(*plan.faults, *result.added),
            output={node: tuple(lines.get(node, ())) for node in nodes},
            watches=self._watches,
        )
        return _Left(result, data, sha256)

    def end(self) -> _Left:
        """Keep what it left: what the simulation holds of this host is let go then."""
        self._left = self._left or self._take_stock()
        return self._left

    def judged(self) -> SimRun:
        """Tell what it left, judged by all checkers that can."""
        left = self.end()
        error = self._tape.broken or self._error
        loop = None if self._environment is None else self._environment.loop
        return SimRun(
            left.data,
            left.result,
            self._judge(left, left.result.crash if error is None else reason_of(error)),
            left.trace_sha256,
            self._tape.count,
            0 if loop is None else loop.now_ns,
            0 if loop is None else loop.calls,
            self._tape.stop,
            left.result.crash_trace if error is None else "".join(format_exception(error)),
        )

    def let_go(self) -> None:
        """Hold nothing of the run any more, so that it is freed as soon as its caller is done.

        A simulation refers to itself in many places: only a collection would free it, and with it
        all events. In a process of hundreds of seeds that took a twentieth of the time.
        """
        self._tape.let_go()
        self._watches, self._left, self._run = {}, None, None
        self._environment = self._system = None

    def _judge(self, left: _Left, harness_reason: str | None) -> Judgement:
        judgement = judge_here(left.data, self._plan.checkers, harness_reason=harness_reason)
        if self.stalled is None:
            return judgement
        spinning = Anomaly("L12", f"the simulation could not go on: {self.stalled}")
        result = CheckResult("stalled", Valid.INVALID, (spinning,))
        return conclude([*judgement.results, result], harness_reason, known_of(self._plan.spec))


def never_done(plan: Plan, reason: str, traceback: str | None = None) -> SimRun:
    """A run of which nothing was seen, for its process died in it: a broken one, to be stored."""
    data = RunData(plan.spec, History(()), faults=tuple(plan.faults))
    judgement = conclude((), reason)
    return SimRun(data, RunResult(), judgement, "", 0, 0, 0, traceback=traceback)


def reason_of(error: BaseException) -> str:
    """An exception in one line, with the place that raised it."""
    raised = "".join(format_exception_only(error)).strip().splitlines()[-1]
    frames = extract_tb(error.__traceback__)
    if not frames:
        return raised
    last = frames[-1]
    return f"{raised} ({Path(last.filename).name}:{last.lineno}, in {last.name})"


def save(run: SimRun, store: Store, origin: Origin | None = None) -> RunDir:
    """Put a simulation into the store, with its report, as if it had been a live run.

    ``origin`` names the command that makes it; ``sim`` when not given.
    """
    data = run.data
    run_dir = store.new_run(data.spec, origin)
    run_dir.write_schedule(data.faults)
    history = HistoryWriter(run_dir.history)
    for op in data.history:
        history.hold(op)
    history.close()
    for node, events in data.events.items():
        lines = [msgspec.json.encode(event) + b"\n" for event in events]
        run_dir.events(node).write_bytes(b"".join(lines))
    for node, log in data.logs.items():
        run_dir.write_records(node, log)
        run_dir.write_snapshots(node, data.snapshots[node])
        run_dir.log(node).write_text("".join(f"{x}\n" for x in data.output[node]), encoding="utf-8")
    versions = {
        "krucible": version("krucible"),
        "python": platform.python_version(),
        **systems.traits(data.spec.system).of(data.spec).versions,
    }
    run_dir.write_results(
        {
            **run.judgement.to_json(),
            "trace_sha256": run.trace_sha256,
            "stopped": None if run.stop is None else run.stop.to_json(),
            **({} if run.traceback is None else {"harness_traceback": run.traceback}),
            "warnings": [],
            "versions": versions,
        }
    )
    run_dir.write_report()
    return run_dir
