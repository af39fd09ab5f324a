"""Clocks of processes on an ssh host: where its libfaketime is, and what that leaves behind.

It has a semaphore and a page of shared memory for each process, which stay there when the process
is killed. So the run's folder keeps the pids that had one.
"""

from __future__ import annotations

from pathlib import Path

_FAKETIME = ("*/faketime/libfaketimeMT.so.1", "faketime/libfaketimeMT.so.1")
_LIBRARIES = ("/usr/lib", "/usr/local/lib")
_SHARED = Path("/dev/shm")  # noqa: S108 - where shm_open(3) and sem_open(3) have theirs
_NOTE = ".clocks"


def find_faketime() -> str | None:
    """Tell where this host has libfaketime."""
    places = (Path(at) for at in _LIBRARIES)
    found = (path for at in places for name in _FAKETIME for path in sorted(at.glob(name)))
    return next(map(str, found), None)


def note_clock(folder: str, pid: int) -> None:
    """A process of the run that has this folder has begun with a clock of its own."""
    with (Path(folder) / _NOTE).open("a") as file:
        file.write(f"{pid}\n")


def remove_clocks(folder: str) -> int:
    """Remove what is left of those that are dead; how many files that were."""
    try:
        pids = (Path(folder) / _NOTE).read_text().split()
    except OSError:
        return 0
    paths = [path for pid in pids if _is_dead(pid) for path in _traces(pid)]
    left = [path for path in paths if path.exists()]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def _traces(pid: str) -> tuple[Path, ...]:
    """Name what a process leaves; a JVM that was asked for its time leaves a socket, too."""
    return (
        _SHARED / f"faketime_shm_{pid}",
        _SHARED / f"sem.faketime_sem_{pid}",
        Path("/tmp") / f".java_pid{pid}",  # noqa: S108 - HotSpot's choice
    )


def _is_dead(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat[stat.rindex(")") + 2] in "ZX"
