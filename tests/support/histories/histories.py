"""Short histories, written op by op with their times in milliseconds."""

from __future__ import annotations

from typing import Any

from harness.contracts.checker import RunData
from harness.contracts.nemesis import Fault
from harness.history.ops import NEMESIS, History, Op, OpType
from harness.spec import RunSpec

MS = 1_000_000
END_MS = 60_000  # after all that the tales tell


class Tale:
    """Builds a history; ops may be added in any order and are sorted by time."""

    def __init__(self) -> None:
        self._ops: list[tuple[int, Op]] = []
        self._processes = 0

    def op(
        self, start_ms: float, end_ms: float | None, type_: OpType = "ok", f: str = "write"
    ) -> None:
        """One op of a process of its own; without an end it stays open."""
        self._processes += 1
        self._add(start_ms, self._processes, "invoke", f)
        if end_ms is not None:
            self._add(end_ms, self._processes, type_, f)

    def inject(self, at_ms: float, id_: int, nemesis: str, outcome: str, **more: Any) -> None:
        """A fault's injection: when it began; it is done 1 ms later."""
        fault = {"id": id_, "nemesis": nemesis}
        evidence = [{"seen": True}] if outcome == "installed" else []
        result = {**fault, "outcome": outcome, "evidence": evidence, "reason": None, **more}
        self._add(at_ms, NEMESIS, "info", "inject", fault)
        self._add(at_ms + 1, NEMESIS, "info", "inject", result)

    def heal(self, at_ms: float, id_: int, nemesis: str, evidence: Any = None) -> None:
        """A fault's heal: when it was done; it began 1 ms before."""
        fault = {"id": id_, "nemesis": nemesis}
        seen = {"gone": True} if evidence is None else evidence
        self._add(at_ms - 1, NEMESIS, "info", "heal", fault)
        self._add(at_ms, NEMESIS, "info", "heal", {**fault, "evidence": seen})

    def _add(
        self, at_ms: float, process: int | str, type_: OpType, f: str, value: Any = None
    ) -> None:
        op = Op(0, int(at_ms * MS), process, type_, f, value)
        self._ops.append((len(self._ops), op))

    def history(self) -> History:
        """All ops, in order of time."""
        ordered = sorted(self._ops, key=lambda item: (item[1].time_ns, item[0]))
        return History(op.with_(index=index) for index, (_, op) in enumerate(ordered))

    def recover(self, at_ms: float, *, recovered: bool = True, **more: Any) -> None:
        """The end of the recovery after all heals."""
        value = {"recovered": recovered, "elapsed_ms": 7, **more}
        self._add(at_ms, NEMESIS, "info", "recovery", value)

    def abort(self, at_ms: float, reason: str) -> None:
        """A guard has the run let go of the system."""
        self._add(at_ms, NEMESIS, "info", "abort", {"reason": reason})

    def run(
        self, *planned: str, nemeses: tuple[str, ...] = (), ended: bool = True, **more: Any
    ) -> RunData:
        """The run of the history, with faults of these kinds in its schedule."""
        if ended and all(op.f != "recovery" for _, op in self._ops):
            self.recover(END_MS)
        faults = tuple(Fault(n, kind, 0, 1) for n, kind in enumerate(planned))
        return RunData(RunSpec(seed=1, nemeses=nemeses), self.history(), faults=faults, **more)
