"""Reports what a process reads on its clocks to whoever looks from outside.

A shifted clock is proven only by the process that reads it. Where ``KRUCIBLE_CLOCK_REPORT`` names a
file, its event loop writes both clocks there again and again; nothing of this is there without.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from node.clock import Clock

VARIABLE: Final = "KRUCIBLE_CLOCK_REPORT"
PERIOD_S: Final = 0.02
_LAYOUT: Final = struct.Struct("<QQqqQ")  # number, pid, steady ns, wall ms, number again


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks of a process at one moment."""

    pid: int
    steady_ns: int
    wall_ms: int


def report_clock(environ: Mapping[str, str], clock: Clock) -> None:
    """Report for as long as the running loop does, where the environment says so."""
    path = environ.get(VARIABLE)
    if path:
        # no thread: with libfaketime, one that waits again and again holds up all others
        _report(asyncio.get_running_loop(), _cell(Path(path)), clock, 1)


def read_report(path: Path) -> ClockReading | None:
    """The last report in a file; None when there is none, or one is being written just now."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _LAYOUT.size:
        return None
    begun, pid, steady_ns, wall_ms, done = _LAYOUT.unpack(data)
    return ClockReading(pid, steady_ns, wall_ms) if begun == done and begun else None


def _report(loop: asyncio.AbstractEventLoop, cell: mmap.mmap, clock: Clock, number: int) -> None:
    cell[:] = _LAYOUT.pack(number, os.getpid(), clock.trace_ns(), clock.wall_ms(), number)
    loop.call_later(PERIOD_S, _report, loop, cell, clock, number + 1)


def _cell(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, _LAYOUT.size)
        return mmap.mmap(fd, _LAYOUT.size)
    finally:
        os.close(fd)
