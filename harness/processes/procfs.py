"""Looks at processes through Linux's /proc, and signals them without ever meeting a stranger.

A pid alone is no identity: the kernel gives it to somebody else once its owner is reaped. A pid
with its start time (in clock ticks since boot) is, for as long as the machine is up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE = "gone"
ENDED = "ZX"  # a zombie has closed its files and runs no more: for us it is dead


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for good: its pid and when it started, in ticks since boot."""

    pid: int
    start: int

    def __str__(self) -> str:
        return f"pid {self.pid} (start {self.start})"


def identify(pid: int) -> ProcessId | None:
    """The identity of the process that has this pid now; None when there is none."""
    fields = _stat(pid)
    return None if fields is None else ProcessId(pid, fields[1])


def state_of(pid: int) -> str:
    """The state letter of /proc/PID/stat, or ``gone``."""
    fields = _stat(pid)
    return GONE if fields is None else fields[0]


def is_alive(process: ProcessId) -> bool:
    """Tell whether this very process still runs (frozen counts, a zombie does not)."""
    fields = _stat(process.pid)
    return fields is not None and fields[1] == process.start and fields[0] not in ENDED


def environment_of(pid: int) -> dict[str, str]:
    """The variables a process was started with; empty when it is gone or not ours to look at."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def processes() -> Iterator[int]:
    """All pids there are now."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def send_signal(process: ProcessId, number: int) -> bool:
    """Signal this very process; False when it is gone. Never hits a process of the same pid.

    The pidfd pins the process before its start time is compared, so no reuse can slip between.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name sits in parentheses and may hold blanks and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])
