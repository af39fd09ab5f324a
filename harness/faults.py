"""The fault player: plays a schedule against the cluster, on time, and heals what it did.

Each fault is four ops of the nemesis in the history: ``inject`` with the fault as its value, then
``inject`` again with what became of it (outcome, targets, evidence); ``heal``, then ``heal`` again
with the evidence that it is gone. Faults may overlap. A heal that raises is recorded, tried again
and in the end breaks the run: nothing may be judged on a cluster that we left broken.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.clock import NS_PER_MS, NS_PER_S
from harness.errors import HarnessError
from harness.guard import GuardedNemesis
from harness.protocols import Cluster, Fault, Injection, Nemesis
from harness.recorder import Recorder

INJECT_TIMEOUT_S = 60.0
HEAL_TIMEOUT_S = 60.0
HEAL_TRIES = 3
HEAL_RETRY_DELAY_S = 1.0


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What became of one fault."""

    fault: Fault
    injection: Injection
    injected_ns: int  # when the injection was complete
    healed_ns: int | None = None
    heal_evidence: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "fault": self.fault.to_json(),
            "injection": self.injection.to_json(),
            "injected_ns": self.injected_ns,
            "healed_ns": self.healed_ns,
            "heal_evidence": None if self.heal_evidence is None else dict(self.heal_evidence),
        }


class FaultPlayer:
    """Plays one schedule; ``start``, then ``stop``, which returns with everything healed."""

    def __init__(
        self,
        faults: Sequence[Fault],
        nemeses: Mapping[str, Nemesis],
        cluster: Cluster,
        recorder: Recorder,
    ) -> None:
        missing = sorted({f.nemesis for f in faults} - set(nemeses))
        if missing:
            raise HarnessError(f"the schedule names nemeses that the run lacks: {missing}")
        self._faults = sorted(faults, key=lambda f: (f.at_ms, f.id))
        self._nemeses = {name: GuardedNemesis(name, n) for name, n in nemeses.items()}
        self._cluster = cluster
        self._recorder = recorder
        self._reports: dict[int, FaultReport] = {}  # in the order of injection
        self._active: dict[int, FaultReport] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, origin_ns: int) -> None:
        """Begin to play; fault times count from ``origin_ns``; ``failed`` gets what goes wrong."""
        for fault in self._faults:
            task = asyncio.create_task(self._play(fault, origin_ns), name=f"fault-{fault.id}")
            task.add_done_callback(self._task_done)
            self._tasks.append(task)

    async def stop(self) -> None:
        """Inject nothing more, wait for what is under way, heal all: the last installed first.

        Raises:
            Exception: The first thing that went wrong, such as the HarnessError of a fault that
            cannot be healed; everything else is healed before.
        """
        self._stopping.set()
        if self._tasks:
            await asyncio.wait(self._tasks)
        broken: list[BaseException] = []
        for report in reversed(list(self._active.values())):
            try:
                await self._heal(report)
            except Exception as error:  # the others must be healed all the same
                broken.append(error)
        if self.failed.done():
            broken.append(self.failed.exception() or HarnessError("a fault task failed"))
        else:
            self.failed.cancel()
        if broken:
            raise broken[0]

    def reports(self) -> tuple[FaultReport, ...]:
        """What became of each fault that was tried, in the order of injection."""
        return tuple(self._reports.values())

    def unplayed(self) -> tuple[Fault, ...]:
        """The faults that were never tried, because the run ended first."""
        return tuple(f for f in self._faults if f.id not in self._reports)

    # ---------------------------------------------------------------- one fault

    async def _play(self, fault: Fault, origin_ns: int) -> None:
        if await self._stopped_before(origin_ns + fault.at_ms * NS_PER_MS):
            return
        report = await self._inject(fault)
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

    async def _inject(self, fault: Fault) -> FaultReport:
        value = fault.to_json()
        self._recorder.nemesis_op("inject", value)
        self._recorder.tell_fault(fault, "inject", {})
        nemesis = self._nemeses[fault.nemesis]
        try:
            async with asyncio.timeout(INJECT_TIMEOUT_S):
                injection = await nemesis.inject(fault, self._cluster)
        except Exception as error:
            self._recorder.nemesis_op("inject", value, error=_text(error))
            raise HarnessError(
                f"nemesis {fault.nemesis}: inject of fault {fault.id} raised {_text(error)}; "
                "what cannot be installed is an outcome (skipped, failed), not an exception"
            ) from error
        outcome = injection.to_json()
        self._recorder.nemesis_op("inject", {**value, **outcome})
        self._recorder.tell_fault(fault, injection.outcome, outcome)
        report = FaultReport(fault, injection, self._recorder.clock.now_ns())
        self._reports[fault.id] = report
        if injection.outcome == "installed" or injection.undo is not None:
            self._active[fault.id] = report
        return report

    async def _heal(self, report: FaultReport) -> None:
        """Heal one fault, trying again a few times."""
        fault = report.fault
        value = fault.to_json()
        for tries_left in reversed(range(HEAL_TRIES)):
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
                if not tries_left:
                    self._active.pop(fault.id, None)
                    raise HarnessError(
                        f"nemesis {fault.nemesis}: fault {fault.id} could not be healed in "
                        f"{HEAL_TRIES} tries: {text}; look at the cluster before you run again"
                    ) from error
                await asyncio.sleep(HEAL_RETRY_DELAY_S)
                continue
            self._healed(report, dict(evidence))
            return

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
