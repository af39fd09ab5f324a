"""The runner: one run against a system that is up, from the first op to the last heal.

Phases: ``main`` (clients work while the schedule's faults are played), ``heal`` (everything),
``again`` (only if faults of some kind never took hold: a last try of each, beside more ops),
``recovery`` (the system gets time to come back; two ``recovery`` ops of the nemesis say how it
went), ``final`` (the workload's last ops), ``close``.
Whatever ends a run early, a crash of ours or Ctrl-C, faults are healed, the history is closed and
the result says so. A system that is ``Guarded`` is watched all the while: when it is not safe any
more the run is *aborted*, which an ``abort`` op of the nemesis tells: all is healed at once, and
what is left is the recovery.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import seeds
from harness.clock import NS_PER_MS, Clock, LoopClock
from harness.contracts.abilities import Guarded
from harness.contracts.moments import Moments
from harness.contracts.nemesis import Cluster, Fault, Nemesis
from harness.contracts.workload import Workload
from harness.generators.basic import Generator, coerce, only, stagger, time_limit, unlimited
from harness.run.interpreter import OP_TIMEOUT_S, Interpreter
from harness.run.player import HEAL_TRIES, FaultPlayer, FaultReport, KeepLate, ignore_late
from harness.run.recorder import OpSink, Progress, Recorder, Silence
from harness.spec import RunSpec

RECOVERY_TIMEOUT_S = 20.0
FINAL_LIMIT_S = 20.0
LAST_ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The parts of a run: options, ops, faults, and the cluster they act on (already up)."""

    spec: RunSpec
    workload: Workload
    cluster: Cluster
    faults: Sequence[Fault] = ()
    nemeses: Mapping[str, Nemesis] = field(default_factory=dict)
    keep_late: KeepLate = ignore_late  # told of the late faults that the schedule did not have
    moments: Moments | None = None  # tells of events; only faults with a trigger need it


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Bounds of a run."""

    op_timeout_s: float = OP_TIMEOUT_S
    recovery_timeout_s: float = RECOVERY_TIMEOUT_S
    final_limit_s: float = FINAL_LIMIT_S
    last_round_s: float = LAST_ROUND_S  # for kinds that never took hold; 0 = no try more
    settle_s: float = 0.0  # of peace at the end, for what needs time to show; 0 = none
    heal_tries: int = HEAL_TRIES  # until a fault is given up
    count_changes: bool = False  # of disks, under the schedule; a simulation has them told


@dataclass(slots=True)
class RunResult:
    """The course of a run; what it found is for the checkers."""

    ops: int = 0  # lines of the history
    counts: dict[str, int] = field(default_factory=dict)  # client ops by type
    faults: tuple[FaultReport, ...] = ()
    unplayed: tuple[Fault, ...] = ()  # faults that the run ended before
    added: tuple[Fault, ...] = ()  # late faults: they belong to the schedule from now on
    recovered: bool | None = None  # None: it never came to that
    phases_ns: dict[str, int] = field(default_factory=dict)  # when each phase began
    ended_ns: int = 0
    changes: dict[str, int] = field(default_factory=dict)  # of disks, by node, if they are counted
    interrupted: bool = False
    aborted: str | None = None  # why the system was let go of, when it was
    crash: str | None = None  # the harness broke: one line
    crash_trace: str | None = None

    @property
    def harness_ok(self) -> bool:
        """Tell whether the harness did its work; an interrupted run is not broken, only short."""
        return self.crash is None


async def run(
    plan: RunPlan,
    history: Path | OpSink,
    *,
    clock: Clock | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Run the plan and write its ops to ``history`` as they happen.

    Never raises for what goes wrong in the run: ``RunResult.crash`` says it. A first
    cancellation (Ctrl-C) ends the run in good order; a second one leaves at once.
    """
    recorder = Recorder(history, clock or LoopClock(), progress or Silence())
    try:
        return await Run(plan, recorder, options or RunOptions()).execute()
    finally:
        recorder.close()


class Run:
    """One run on its way through the phases; ``summary`` may be asked for at any time."""

    def __init__(self, plan: RunPlan, recorder: Recorder, options: RunOptions) -> None:
        self._plan = plan
        self._recorder = recorder
        self._options = options
        self._result = RunResult()
        self._player: FaultPlayer | None = None
        self._interpreter: Interpreter | None = None
        self._alarm: asyncio.Future[str] | None = None  # done when the system must be let go of

    def began_ns(self, phase: str) -> int | None:
        """Tell when a phase began, by the run's clock; None when it did not yet."""
        return self._result.phases_ns.get(phase)

    async def execute(self) -> RunResult:
        """All phases; see ``run``."""
        for phase in (self._main, self._heal, self._again):
            if not await self._guarded(phase()):
                await self._guarded(self._heal())
                break
            if self._result.aborted is not None:
                await self._guarded(self._heal())
                await self._guarded(self._recover())
                break
        else:
            await self._guarded(self._recover())
            if self._result.recovered:  # nobody would answer the last reads otherwise
                await self._guarded(self._final()) and await self._guarded(self._settle())
        if self._alarm is not None:
            self._alarm.cancel()
            await asyncio.wait((self._alarm,))
        await self._guarded(self._close())
        return self.summary()

    async def _guarded(self, phase: Any) -> bool:
        """Run one phase; False when it was interrupted or crashed, which the result then says."""
        try:
            await phase
        except asyncio.CancelledError:
            if self._result.interrupted:
                raise
            self._result.interrupted = True
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            return False
        except Exception as error:
            self._crashed(error)
            return False
        return True

    def _crashed(self, error: BaseException | None) -> None:
        """Note why the harness broke; what broke first explains the rest."""
        if error is not None and self._result.crash is None:
            self._result.crash = "".join(traceback.format_exception_only(error)).strip()
            self._result.crash_trace = "".join(traceback.format_exception(error))

    async def _main(self) -> None:
        plan, spec = self._plan, self._plan.spec
        self._interpreter = Interpreter(
            plan.workload.client(plan.cluster.system),
            plan.cluster.system.nodes,
            spec.concurrency,
            self._recorder,
            op_timeout_s=self._options.op_timeout_s,
        )
        self._player = FaultPlayer(
            plan.faults,
            plan.nemeses,
            plan.cluster,
            self._recorder,
            plan.keep_late,
            plan.moments,
            heal_tries=self._options.heal_tries,
        )
        if self._options.count_changes:
            self._player.count_changes()
        self._enter("main")
        generator = self._paced(plan.workload.generator, spec.time_limit_s, "main")
        if isinstance(plan.cluster.system, Guarded):
            self._alarm = asyncio.create_task(plan.cluster.system.until_unsafe(), name="guard")
        self._player.start(self._recorder.clock.now_ns())
        await self._ops(self._interpreter, self._player, generator)

    async def _ops(
        self, interpreter: Interpreter, player: FaultPlayer, generator: Generator
    ) -> None:
        """Do ops until the generator ends, or faults go wrong."""
        ops = asyncio.create_task(interpreter.run(generator), name="interpreter")
        watched: list[asyncio.Future[Any]] = [ops, player.failed]
        if self._alarm is not None:
            watched.append(self._alarm)
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if self._alarm is not None and self._alarm.done():
                self._abort(self._alarm.result())
                return
            if not ops.done():
                player.failed.result()  # raises
            await ops
        finally:
            if not ops.done():
                ops.cancel()
                await asyncio.wait((ops,))
                if not ops.cancelled():
                    self._crashed(ops.exception())

    def _abort(self, reason: str) -> None:
        """Let go of the system: what is installed is healed next, and nothing more is done."""
        self._result.aborted = reason
        for _ in range(2):  # as all ops of the nemesis: begun, and done
            self._recorder.nemesis_op("abort", {"reason": reason})
        self._recorder.progress.on_phase("abort")

    async def _heal(self) -> None:
        self._enter("heal")
        if self._player is not None:
            await self._player.stop()

    async def _again(self) -> None:
        """The last round of faults, beside what is left of the ops; mostly there is none."""
        player, interpreter, options = self._player, self._interpreter, self._options
        if player is None or interpreter is None:
            return
        missed = player.missed() if options.last_round_s > 0 else []
        if not missed and not player.late():
            return
        self._enter("again")
        faults = player.start_last_round(
            missed, recovery_s=options.recovery_timeout_s, limit_s=options.last_round_s
        )
        faults.add_done_callback(lambda _: interpreter.end())
        await self._ops(interpreter, player, unlimited(interpreter.left))
        await asyncio.wait((faults,))  # ops may come to their end first
        await player.stop()

    async def _recover(self) -> None:
        self._enter("recovery")
        recorder, timeout_s = self._recorder, self._options.recovery_timeout_s
        began = recorder.nemesis_op("recovery", {"timeout_s": timeout_s})
        recovered = await self._plan.cluster.system.await_recovery(timeout_s)
        elapsed_ms = (recorder.clock.now_ns() - began.time_ns) // NS_PER_MS
        down = {} if recovered else self._down()
        ended = {
            "recovered": recovered,
            "elapsed_ms": elapsed_ms,
            **({"down": down} if down else {}),
        }
        recorder.nemesis_op("recovery", ended)
        self._result.recovered = recovered

    def _down(self) -> dict[str, str]:
        """The nodes whose processes have ended, each with how."""
        cluster = self._plan.cluster
        states = {node: cluster.environment.process(node) for node in cluster.system.nodes}
        return {node: state.detail for node, state in states.items() if state.has_ended}

    async def _final(self) -> None:
        source = self._plan.workload.final_generator
        if source is None or self._interpreter is None:
            return
        self._enter("final")
        await self._interpreter.run(self._paced(source, self._options.final_limit_s, "final"))

    async def _settle(self) -> None:
        seconds = self._options.settle_s
        if seconds:
            self._enter("settle")
            self._recorder.nemesis_op("settle", {"seconds": seconds})
            await asyncio.sleep(seconds)
            self._recorder.nemesis_op("settle", {"seconds": seconds})

    async def _close(self) -> None:
        self._enter("close")
        if self._interpreter is not None:
            await self._interpreter.close()

    def _paced(self, source: Any, limit_s: float, phase: str) -> Generator:
        """The workload's generator at the run's rate, within its time, from the run's seed."""
        spec = self._plan.spec
        generator = coerce(source)
        if spec.rate_hz > 0:
            generator = stagger(generator, spec.rate_hz)
        if phase == "main" and spec.only_ops is not None:
            generator = only(generator, spec.only_ops)
        return time_limit(generator, limit_s).seeded(seeds.split(spec.seed, "ops", phase))

    def _enter(self, phase: str) -> None:
        self._result.phases_ns.setdefault(phase, self._recorder.clock.now_ns())
        self._recorder.progress.on_phase(phase)

    def summary(self) -> RunResult:
        """Tell how it went so far; what comes later does not change it."""
        result = self._result
        self._recorder.flush()
        if self._recorder.failure is not None and result.crash is None:
            result.crash = self._recorder.failure
        result.ops = self._recorder.next_index
        result.counts = dict(self._recorder.counts)
        result.ended_ns = self._recorder.clock.now_ns()
        if self._player is not None:
            result.faults = self._player.reports()
            result.unplayed = self._player.unplayed()
            result.added = self._player.added()
            result.changes = self._player.changes()
        return replace(result, phases_ns=dict(result.phases_ns))
