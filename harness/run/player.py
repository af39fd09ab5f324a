"""The fault player: plays a schedule against the cluster, on time, and heals what it did.

Each fault is four ops of the nemesis in the history: ``inject`` with the fault as its value, then
``inject`` again with what became of it (outcome, targets, evidence); ``heal``, then ``heal`` again
with the evidence that it is gone. Faults may overlap. A heal that raises is recorded, tried again
and in the end breaks the run: nothing may be judged on a cluster that we left broken. Not so where
the environment is healed and the system itself is stuck: the run goes on, and is judged.

On a loaded host a fault may meet nodes that are down turn after turn, or the time runs out before
its turn. So, when all is healed, there may be a last round: each kind of which no fault took hold
gets one more try, on a cluster that is well. These *late* faults are part of the schedule.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.clock import NS_PER_MS, NS_PER_S
from harness.contracts.abilities import Roles
from harness.contracts.moments import Moments
from harness.contracts.nemesis import Cluster, Fault, Injection, Nemesis
from harness.errors import HarnessError, SystemStuckError
from harness.moments.lookout import Lookout
from harness.moments.trigger import EVENT
from harness.moments.words import told
from harness.run.guard import GuardedNemesis
from harness.run.recorder import Recorder

INSTALLED = "installed"
INJECT_TIMEOUT_S = 60.0
HEAL_TIMEOUT_S = 60.0
HEAL_TRIES = 3
HEAL_RETRY_DELAY_S = 1.0


@dataclass(frozen=True, slots=True)
class FaultReport:
    """The outcome of one fault."""

    fault: Fault
    injection: Injection
    injected_ns: int  # when the injection was complete
    healed_ns: int | None = None
    heal_evidence: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of a fault with a trigger: an event of a node."""

    node: str
    event: Mapping[str, Any]

    def aimed(self, fault: Fault) -> Fault:
        """The fault with the node in the place of ``event`` among its params."""
        params = {k: self.node if v == EVENT else v for k, v in fault.params.items()}
        return replace(fault, params=params)

    def evidence(self, fault: Fault) -> dict[str, Any]:
        """The event as evidence of the fault."""
        words = "" if fault.trigger is None else told(fault.trigger)
        return {"saw": "moment", "node": self.node, "when": words, "event": dict(self.event)}


KeepLate = Callable[[Sequence[Fault]], None]  # all of them so far, before the last is played


def ignore_late(_: Sequence[Fault]) -> None:
    """Keep nothing: who has the player asks it when the run is over."""


class FaultPlayer:
    """Plays one schedule; ``start``, then ``stop``, which returns with everything healed."""

    def __init__(
        self,
        faults: Sequence[Fault],
        nemeses: Mapping[str, Nemesis],
        cluster: Cluster,
        recorder: Recorder,
        keep_late: KeepLate = ignore_late,
        moments: Moments | None = None,
        *,
        heal_tries: int = HEAL_TRIES,
    ) -> None:
        missing = sorted({f.nemesis for f in faults} - set(nemeses))
        if missing:
            raise HarnessError(f"the schedule names nemeses that the run lacks: {missing}")
        aimed = [fault.id for fault in faults if fault.trigger is not None]
        if aimed and moments is None:
            raise HarnessError(
                f"faults {aimed} wait for events, and nobody tells of any here: give them a time"
            )
        self._faults = sorted(faults, key=lambda f: (f.late, f.at_ms, f.id))
        self._moments = moments
        self._is_watching = bool(aimed)
        roles = cluster.system.roles() if aimed and isinstance(cluster.system, Roles) else {}
        self._lookout = Lookout(cluster.system.observers if aimed else (), roles)
        self._nemeses = {name: GuardedNemesis(name, n) for name, n in nemeses.items()}
        self._cluster = cluster
        self._recorder = recorder
        self._keep_late = keep_late
        self._heal_tries = heal_tries
        self._reports: dict[int, FaultReport] = {}  # in the order of injection
        self._active: dict[int, FaultReport] = {}
        self._stuck: set[int] = set()  # of those, whose heal the system did not do its part of
        self._added: list[Fault] = []  # late ones that the schedule did not have
        self._origin_ns = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def count_changes(self) -> None:
        """Have the changes of disks counted, whether a fault waits for any or not; before start."""
        self._is_watching = True

    def start(self, origin_ns: int) -> None:
        """Begin to play; fault times count from ``origin_ns``; ``failed`` gets what goes wrong."""
        self._origin_ns = origin_ns
        for fault in self._faults:
            if not fault.late and fault.trigger is None:
                self._spawn(self._play(fault, origin_ns), f"fault-{fault.id}")
        aimed = [fault for fault in self._faults if fault.trigger is not None]
        for fault in aimed:
            self._arm(fault)
        if self._moments is not None and self._is_watching:
            self._moments.watch(self._happens)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._follow(asyncio.create_task(work, name=name))

    def _follow(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        task.add_done_callback(self._task_done)
        self._tasks.append(task)
        return task

    async def stop(self) -> None:
        """Inject nothing more, wait for what is under way, heal all: the last installed first.

        Raises:
            Exception: The first thing that went wrong, such as the HarnessError of a fault that
            cannot be healed; everything else is healed before. None of it is that a system is
            stuck: the fault then has no evidence that it was healed.
        """
        self._stopping.set()
        if self._moments is not None:
            self._moments.watch(None)
        if self._tasks:
            await asyncio.wait(self._tasks)
        broken: list[BaseException] = []
        for tries_left in reversed(range(self._heal_tries)):
            # One may need what another one holds, or a system that others have stuck: all, again.
            last_first = list(reversed(self._active.values()))
            for report in sorted(last_first, key=self._was_stuck):
                error = await self._try_heal(report)
                failure = None if error is None or tries_left else self._given_up(report, error)
                if failure is not None:  # the others must be healed all the same
                    broken.append(failure)
            if not self._active:
                break
            if tries_left:
                await asyncio.sleep(HEAL_RETRY_DELAY_S)
        self._active.clear()  # what the system is stuck with
        if not self.failed.cancel() and not self.failed.cancelled():
            broken.append(self.failed.exception() or HarnessError("a fault task failed"))
        if broken:
            raise broken[0]

    def _was_stuck(self, report: FaultReport) -> bool:
        return report.fault.id in self._stuck

    def reports(self) -> tuple[FaultReport, ...]:
        """Tell what became of each fault that was tried, in the order of injection."""
        return tuple(self._reports.values())

    def unplayed(self) -> tuple[Fault, ...]:
        """The faults that were never tried, because the run ended first."""
        return tuple(f for f in self._faults if f.id not in self._reports)

    def changes(self) -> dict[str, int]:
        """Count the changes of each node's disk while the schedule was played, if it is watched."""
        return dict(sorted(self._lookout.changes.items()))

    def added(self) -> tuple[Fault, ...]:
        """The late faults that were tried and that the schedule did not have, in their order."""
        return tuple(self._added)

    # ---------------------------------------------------------------- the last round

    def late(self) -> list[Fault]:
        """The late faults of the schedule, in their order."""
        return [fault for fault in self._faults if fault.late]

    def missed(self) -> list[Fault]:
        """A fault of each kind that never took hold and might: the last tried, or the first."""
        held = {r.fault.nemesis for r in self._reports.values() if r.injection.outcome == INSTALLED}
        held.update(fault.nemesis for fault in self.late())
        best = {fault.nemesis: fault for fault in reversed(self._faults)}
        best.update({r.fault.nemesis: r.fault for r in self._reports.values()})
        return [
            best[kind]
            for kind in dict.fromkeys(fault.nemesis for fault in self._faults)
            if kind not in held and self._nemeses[kind].available(self._cluster) is None
        ]

    def start_last_round(
        self, missed: Sequence[Fault], *, recovery_s: float, limit_s: float
    ) -> asyncio.Task[None]:
        """Begin the last round, after ``stop``: late faults, then a try more of those missed.

        Each waits for a cluster that is well, and is healed before the next. ``failed`` is a new
        one. It takes another ``stop`` to end the round early.

        Args:
            missed: What to try once more.
            recovery_s: How long the cluster may take to be well; if it is not, the round is over.
            limit_s: After so many seconds no fault that was missed begins.
        """
        self._stopping = asyncio.Event()
        self.failed = asyncio.get_running_loop().create_future()
        return self._spawn(self._last_round(missed, recovery_s, limit_s), "last-round")

    async def _last_round(self, missed: Sequence[Fault], recovery_s: float, limit_s: float) -> None:
        end_ns = self._recorder.clock.now_ns() + int(limit_s * NS_PER_S)
        for fault in self.late():
            if not await self._is_well(recovery_s):
                return
            await self._play_now(fault)
        for fault in missed:
            if not await self._is_well(recovery_s) or self._recorder.clock.now_ns() >= end_ns:
                return
            self._added.append(self._again(fault))
            self._keep_late(self._added)
            await self._play_now(self._added[-1])

    def _again(self, fault: Fault) -> Fault:
        """Copy a fault as a late one that begins now, with an id of its own."""
        at_ms = (self._recorder.clock.now_ns() - self._origin_ns) // NS_PER_MS
        number = 1 + max(f.id for f in (*self._faults, *self._added))
        return replace(fault, id=number, at_ms=at_ms, late=True, trigger=None)

    async def _is_well(self, timeout_s: float) -> bool:
        """Tell whether the cluster came back, before anybody said stop."""
        back = asyncio.ensure_future(self._cluster.system.await_recovery(timeout_s))
        stop = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((back, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        back.cancel()
        await asyncio.wait((back, stop))
        return not back.cancelled() and back.result() and not self._stopping.is_set()

    # ---------------------------------------------------------------- faults with a trigger

    def _arm(self, fault: Fault) -> None:
        if fault.trigger is not None and fault.at_ms == 0:
            self._lookout.arm(fault.id, fault.trigger)
        else:
            self._spawn(self._arm_in_time(fault), f"arm-{fault.id}")

    async def _arm_in_time(self, fault: Fault) -> None:
        due_ns = self._origin_ns + fault.at_ms * NS_PER_MS
        if fault.trigger is not None and not await self._stopped_before(due_ns):
            self._lookout.arm(fault.id, fault.trigger)

    def _happens(self, node: str, event: Mapping[str, Any]) -> None:
        """Take an event, and strike where it is the moment of a fault."""
        now_ms = (self._recorder.clock.now_ns() - self._origin_ns) // NS_PER_MS
        for number in self._lookout.feed(node, event, now_ms):
            fault = next(f for f in self._faults if f.id == number)
            if self._moments is not None and not self._stopping.is_set():
                work = self._play_now(fault, Moment(node, event))
                self._follow(self._moments.begin(work, name=f"fault-{number}"))

    # ---------------------------------------------------------------- one fault

    async def _play(self, fault: Fault, origin_ns: int) -> None:
        if not await self._stopped_before(origin_ns + fault.at_ms * NS_PER_MS):
            await self._play_now(fault)

    async def _play_now(self, fault: Fault, moment: Moment | None = None) -> None:
        report = await self._inject(fault, moment)
        if report.injection.outcome == "skipped":
            return
        if report.injection.outcome == "failed":
            # It may have taken hold in part; the nemesis left a note if there is work to undo.
            if report.injection.undo is not None:
                await self._heal(report)
            return
        end_ns = report.injected_ns + fault.duration_ms * NS_PER_MS
        if not await self._stopped_before(end_ns):
            await self._heal(report)

    async def _stopped_before(self, when_ns: int) -> bool:
        """Wait until ``when_ns``; True when the player was stopped first."""
        left_s = (when_ns - self._recorder.clock.now_ns()) / NS_PER_S
        if left_s <= 0:
            return self._stopping.is_set()
        try:
            async with asyncio.timeout(left_s):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _inject(self, fault: Fault, moment: Moment | None = None) -> FaultReport:
        value = fault.to_json()
        self._recorder.nemesis_op("inject", value)
        self._recorder.tell_fault(fault, "inject", {})
        nemesis = self._nemeses[fault.nemesis]
        try:
            async with asyncio.timeout(INJECT_TIMEOUT_S):
                aimed = fault if moment is None else moment.aimed(fault)
                injection = await nemesis.inject(aimed, self._cluster)
        except Exception as error:
            self._recorder.nemesis_op("inject", value, error=_text(error))
            raise HarnessError(
                f"nemesis {fault.nemesis}: inject of fault {fault.id} raised {_text(error)}; "
                "what cannot be installed is an outcome (skipped, failed), not an exception"
            ) from error
        if moment is not None and injection.outcome != "skipped":
            evidence = (moment.evidence(fault), *injection.evidence)
            injection = replace(injection, evidence=evidence)
        outcome = injection.to_json()
        self._recorder.nemesis_op("inject", {**value, **outcome})
        self._recorder.tell_fault(fault, injection.outcome, outcome)
        report = FaultReport(fault, injection, self._recorder.clock.now_ns())
        self._reports[fault.id] = report
        if injection.outcome == INSTALLED or injection.undo is not None:
            self._active[fault.id] = report
        return report

    async def _heal(self, report: FaultReport) -> None:
        """Heal one fault, trying again a few times; it stays active when the system is stuck.

        When the player was stopped meanwhile, the rest is for ``stop``: what this heal waits for
        may be with a fault that nobody else heals now.
        """
        for tries_left in reversed(range(self._heal_tries)):
            error = await self._try_heal(report)
            if error is None or self._stopping.is_set():
                return
            if tries_left:
                await asyncio.sleep(HEAL_RETRY_DELAY_S)
            elif (failure := self._given_up(report, error)) is not None:
                raise failure

    def _given_up(self, report: FaultReport, error: Exception) -> HarnessError | None:
        """The fault stays as it is: our failure, unless it is the system's."""
        fault = report.fault
        if isinstance(error, SystemStuckError):
            return None
        self._active.pop(fault.id, None)
        failure = HarnessError(
            f"nemesis {fault.nemesis}: fault {fault.id} could not be healed in "
            f"{self._heal_tries} tries: {_text(error)}; look at the cluster before you run again"
        )
        failure.__cause__ = error
        return failure

    async def _try_heal(self, report: FaultReport) -> Exception | None:
        """Try once to heal a fault; gives what went wrong."""
        fault = report.fault
        value = fault.to_json()
        self._recorder.nemesis_op("heal", value)
        self._recorder.tell_fault(fault, "heal", {})
        try:
            async with asyncio.timeout(HEAL_TIMEOUT_S):
                evidence = await self._nemeses[fault.nemesis].heal(
                    fault, report.injection, self._cluster
                )
        except Exception as error:
            text = _text(error)
            self._recorder.nemesis_op("heal", value, error=text)
            self._recorder.tell_fault(fault, "heal-failed", {"error": text})
            if isinstance(error, SystemStuckError):
                self._stuck.add(fault.id)
            return error
        self._healed(report, dict(evidence))
        return None

    def _healed(self, report: FaultReport, evidence: dict[str, Any]) -> None:
        fault = report.fault
        self._active.pop(fault.id, None)
        self._recorder.nemesis_op("heal", {**fault.to_json(), "evidence": evidence})
        self._recorder.tell_fault(fault, "healed", evidence)
        self._reports[fault.id] = FaultReport(
            fault,
            report.injection,
            report.injected_ns,
            self._recorder.clock.now_ns(),
            evidence,
        )

    # ---------------------------------------------------------------- what goes wrong

    def _task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
