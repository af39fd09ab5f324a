"""Mounts of our file system: each in a mount namespace of its own, which nobody else sees.

So the mount is gone as soon as its server and its node are, whatever killed them; what the harness
reads of a node's folder is the folder below, which no dead server can make hang. A thread of the
server holds the namespace while the node is down. mount_namespaces(7)
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

DEVICE: Final = Path("/dev/fuse")
KIND: Final = "fuse.krucible"
_PROC: Final = Path("/proc")
_CLONE_FS: Final = 0x00000200
_CLONE_NEWNS: Final = 0x00020000
_MNT_DETACH: Final = 2
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
_ESCAPED: Final = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}

_libc = ctypes.CDLL(None, use_errno=True)


def open_device() -> int:
    """A connection to the kernel's FUSE; raises OSError."""
    return os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)


def mount_apart(device: int, point: Path, source: str) -> None:
    """Mount in a namespace that lives as long as this process; the caller itself stays outside.

    Raises:
        OSError: The kernel refuses.
    """
    _in_thread(lambda: _mount(device, point, source), stays=True)


def mount_inside(device: int, point: Path, source: str, pid: int) -> None:
    """Mount in the namespace that a process of a container is in, with which it goes.

    Raises:
        OSError: The kernel refuses, or the process is gone.
    """

    def do() -> None:
        _call(_libc.unshare, _CLONE_FS)  # only a thread with a root of its own may go elsewhere
        _set_namespace(pid, pid)
        _mount_here(device, point, source)

    _in_thread(do, stays=False)


def cannot_mount() -> str | None:
    """Try a mount; tell why a process here can have no file system of ours, None when it can."""

    def attempt() -> None:
        device = open_device()
        try:
            _mount(device, Path("/tmp"), "krucible:probe")  # noqa: S108 - gone with the thread
        finally:
            os.close(device)

    try:
        _in_thread(attempt, stays=False)
    except OSError as error:
        return f"no file system of ours can be mounted: {error} (see krucible doctor)"
    return None


def holder(pid: int, source: str) -> int | None:
    """The thread of a process in whose namespace the source is mounted; None: it is not yet."""
    for task in _tasks(pid):
        if source in _sources(task / "mountinfo"):
            return int(task.name)
    return None


def users(source: str) -> Iterator[int]:
    """All processes that have the source in their mount namespace."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and holder(int(entry.name), source) is not None:
            yield int(entry.name)


def enter(pid: int, task: int) -> None:
    """Move this process, which has one thread, into the namespace that a thread is in.

    Raises:
        OSError: The kernel refuses.
    """
    here = Path.cwd()
    _set_namespace(pid, task)
    os.chdir(here)


def detach(pid: int, source: str, point: str) -> None:
    """Take the source from the namespace that a process is in; nothing when it is not there.

    Raises:
        OSError: The kernel refuses.
    """
    task = holder(pid, source)
    if task is None:
        return

    def do() -> None:
        _call(_libc.unshare, _CLONE_FS)  # only a thread with a root of its own may go elsewhere
        _set_namespace(pid, task)
        _call(_libc.umount2, os.fsencode(point), _MNT_DETACH)

    _in_thread(do, stays=False)


# --------------------------------------------------------------------------- inside


def _mount(device: int, point: Path, source: str) -> None:
    """Mount the file system in a new mount namespace of the calling thread only."""
    _call(_libc.unshare, _CLONE_NEWNS)
    # Or it would show in the namespace that we came from.
    _call(_libc.mount, b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    _mount_here(device, point, source)


def _mount_here(device: int, point: Path, source: str) -> None:
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
    _call(
        _libc.mount,
        os.fsencode(source),
        os.fsencode(point),
        KIND.encode(),
        _MS_NOSUID | _MS_NODEV,
        f"{options},default_permissions".encode(),
    )


def _set_namespace(pid: int, task: int) -> None:
    path = _PROC / str(pid) / "task" / str(task) / "ns/mnt"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call(_libc.setns, fd, _CLONE_NEWNS)
    finally:
        os.close(fd)


def _in_thread(do: Callable[[], None], *, stays: bool) -> None:
    """Do it in a thread of its own, which then ends, or stays; raises what it raised."""
    done, failed = threading.Event(), list[OSError]()

    def run() -> None:
        try:
            do()
        except OSError as error:
            failed.append(error)
        done.set()
        if stays and not failed:
            threading.Event().wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    done.wait()
    if not stays:
        thread.join()
    if failed:
        raise failed[0]


def _call(function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


def _tasks(pid: int) -> list[Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []  # it is gone


def _sources(mountinfo: Path) -> set[str]:
    """Find the sources of our file systems in a file as of proc_pid_mountinfo(5)."""
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return set()
    ends = (line.partition(" - ")[2].split(" ") for line in lines)
    return {_plain(end[1]) for end in ends if end[0] == KIND}


def _plain(text: str) -> str:
    for escaped, char in _ESCAPED.items():
        text = text.replace(escaped, char)
    return text


def main() -> None:
    """Enter a namespace and become another program there."""
    enter(int(sys.argv[1]), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
