"""Removes what a killed process with a clock of its own leaves on this host.

Libfaketime has a semaphore and a page of shared memory for each process; a JVM that was asked for
its time has a socket. They are named after the pid: one that is left is in the way of the next
process of that pid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.envs.clocks.jvm_attach import socket_of, trigger_in
from harness.processes.procfs import ProcessId, identify

TRACES_ENTRY: Final = "clock traces"  # the kind of journal entries
SHARED: Final = Path("/dev/shm")  # noqa: S108 - where shm_open(3) and sem_open(3) have theirs


def traces(pid: int, folder: Path) -> Iterator[Path]:
    """List all files that a process could leave which runs in such a folder."""
    yield SHARED / f"faketime_shm_{pid}"
    yield SHARED / f"sem.faketime_sem_{pid}"
    yield socket_of(pid)
    yield trigger_in(folder, pid)


def remove_stale() -> None:
    """Remove pages and semaphores that dead processes of this user have left, whoever started them.

    Libfaketime ends a process at its start where there is a page of its pid, and gives it no page
    where there is a semaphore; and pids come again.
    """
    for pattern in ("faketime_shm_*", "sem.faketime_sem_*"):
        for left in SHARED.glob(pattern):
            pid = left.name.rpartition("_")[2]
            try:
                ours = left.stat().st_uid == os.geteuid()
            except FileNotFoundError:
                continue
            if ours and pid.isdigit() and identify(int(pid)) is None:
                left.unlink(missing_ok=True)


def remove_traces(process: ProcessId, folder: Path) -> None:
    """Remove what a process has left that is dead, unless its pid is somebody else's by now."""
    if identify(process.pid) in (None, process):
        for path in traces(process.pid, folder):
            path.unlink(missing_ok=True)
