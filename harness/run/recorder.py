"""The recorder: gives every op its index and time, and sees that it reaches the disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from harness.clock import Clock
from harness.contracts.nemesis import Fault
from harness.errors import GuardError, HarnessError
from harness.history.ops import NEMESIS, HistoryWriter, Op, OpType

FLUSH_AFTER_MS = 20  # ops wait at most this long (plus one turn of the loop) for the kernel


class Progress(Protocol):
    """Hears of ops as they happen; must be quick and must not raise."""

    def on_op(self, op: Op) -> None:
        """An op of a client was invoked or completed."""
        ...

    def on_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """A fault got to ``stage``: inject, the injection's outcome, heal, healed, heal-failed."""
        ...

    def on_phase(self, phase: str) -> None:
        """The run entered a phase: open, main, heal, recovery, final, close."""
        ...


class Silence:
    """Progress for those who do not watch."""

    def on_op(self, op: Op) -> None:
        """Do nothing."""

    def on_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """Do nothing."""

    def on_phase(self, phase: str) -> None:
        """Do nothing."""


class OpSink(Protocol):
    """A sink of ops, as ``HistoryWriter`` is one."""

    def hold(self, op: Op) -> None:
        """Take one op, perhaps only for later; raises TypeError when it is not JSON."""
        ...

    def flush(self) -> None:
        """Write every recorded op to the file; raises OSError."""
        ...

    def close(self) -> None:
        """Flush, and take nothing any more. Idempotent."""
        ...


class OpList:
    """Keeps the ops of a simulation in memory, until it is closed."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._closed = False

    def hold(self, op: Op) -> None:
        """Keep it."""
        if not self._closed:
            self.ops.append(op)

    def flush(self) -> None:
        """Do nothing: ops in memory are lost with the process in any case."""

    def close(self) -> None:
        """Keep nothing more."""
        self._closed = True


class Recorder:
    """Writes the history, a file or a sink, in the order of index; one per run."""

    def __init__(self, history: Path | OpSink, clock: Clock, progress: Progress) -> None:
        self.clock = clock
        self.progress: Progress = progress
        self.counts: Counter[str] = Counter()  # client ops by type
        self.next_index = 0
        self._writer = HistoryWriter(history) if isinstance(history, Path) else history
        self._loop = asyncio.get_running_loop()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._failure: OSError | None = None

    def client_op(self, op: Op, type_: OpType | None = None) -> Op:
        """Record an op of a client: ``op`` with the index and time of now.

        Raises:
            HarnessError: When ops before it could not be written.
            GuardError: When its value is not JSON.
        """
        if self._failure is not None:
            raise HarnessError(self.failure)
        op = Op(
            self.next_index,
            self.clock.now_ns(),
            op.process,
            type_ or op.type,
            op.f,
            op.value,
            op.key,
            op.error,
            op.node,
        )
        self._write(op)
        self.counts[op.type] += 1
        self.progress.on_op(op)
        return op

    def nemesis_op(self, f: str, value: dict[str, Any], error: str | None = None) -> Op:
        """Record an op of the nemesis; a full disk raises nothing here: it must not stop a heal."""
        op = Op(self.next_index, self.clock.now_ns(), NEMESIS, "info", f, value, error=error)
        self._write(op)
        return op

    def tell_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """Tell the progress; one that raises is told nothing more, for heals must go on."""
        try:
            self.progress.on_fault(fault, stage, detail)
        except Exception:
            self.progress = Silence()
            raise

    def _write(self, op: Op) -> None:
        if self._failure is not None:
            return
        try:
            self._writer.hold(op)
        except TypeError as error:
            raise GuardError(
                f"op {op.f!r} of process {op.process!r}: value {op.value!r} is not JSON: {error}"
            ) from error
        self.next_index += 1
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_AFTER_MS / 1000, self.flush)

    @property
    def failure(self) -> str | None:
        """Tell why the history could not be written; None while it can."""
        if self._failure is None:
            return None
        return f"cannot write the history: {self._failure}; free the disk and run again"

    def flush(self) -> None:
        """Hand everything recorded to the kernel; ``failure`` says when it did not take it."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        try:
            self._writer.flush()
        except OSError as error:
            self._failure = error

    def close(self) -> None:
        """Flush and close the history; idempotent."""
        self.flush()
        self._writer.close()
