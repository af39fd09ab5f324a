"""The disk seam: what the node's storage asks of a file system, and the real one.

Everything durable goes through ``Disk``, so that the simulator and the crash tests can put a disk
that forgets (``node.log.memory_disk``) under the same code. The contract that matters is the one
people get wrong: bytes are durable after ``File.fsync``, names (new, renamed, removed) only after
``Disk.fsync_dir`` of their directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol


class DirectoryLockedError(Exception):
    """Raised when another process holds the lock of a directory."""


class File(Protocol):
    """An open file. OSError from any call means that the node must stop."""

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end."""
        ...

    def pwrite(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` over what is at ``offset``, which must not be beyond the end."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Drop everything from ``size`` on."""
        ...

    def fsync(self) -> None:
        """Make the content durable; may be called from another thread than the other calls."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def close(self) -> None:
        """Release the file, without making anything durable."""
        ...


class Lock(Protocol):
    """A lock held on a path."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class Disk(Protocol):
    """A file system, as small as the node needs it."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """Open for reading, and for writing unless told not to.

        Raises FileNotFoundError unless ``create``.
        """
        ...

    def make_read_only(self, path: Path) -> None:
        """Make a file read-only: it can still be renamed and removed."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Atomically put ``source`` in the place of ``target``."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file; raises FileNotFoundError."""
        ...

    def listdir(self, directory: Path) -> list[str]:
        """Names of the files in a directory, sorted; empty when there is no such directory."""
        ...

    def make_dirs(self, directory: Path) -> None:
        """Create a directory and its parents, durably; no error when it exists."""
        ...

    def fsync_dir(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        ...

    def lock(self, path: Path) -> Lock:
        """Take the lock file ``path`` until released or dead; raises DirectoryLockedError."""
        ...


def read_file(disk: Disk, path: Path) -> bytes | None:
    """The content of a small file, None when it does not exist."""
    try:
        file = disk.open(path, write=False)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(disk: Disk, path: Path, content: bytes) -> None:
    """Put ``content`` in the place of a file so that a crash leaves the old or the new one.

    Temporary file, fsync, rename, fsync of the directory: when this returns the content is
    durable. Source: the way ``quorum-state`` and the checkpoints are written in Kafka.
    """
    temporary = path.with_name(path.name + ".tmp")
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.append(content)
        file.fsync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.fsync_dir(path.parent)


class FileDisk:
    """The host's file system. ``fsync=False`` trades durability for speed, for benchmarks only."""

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OsFile:
        """Open for reading, and for writing unless told not to."""
        access = os.O_RDWR if write else os.O_RDONLY
        flags = access | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644), fsync=self._fsync)

    def make_read_only(self, path: Path) -> None:
        """Make a file read-only: it can still be renamed and removed."""
        path.chmod(0o444)

    def rename(self, source: Path, target: Path) -> None:
        """Atomically put ``source`` in the place of ``target``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file; raises FileNotFoundError."""
        path.unlink()

    def listdir(self, directory: Path) -> list[str]:
        """Names of the files in a directory, sorted; empty when there is no such directory."""
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def make_dirs(self, directory: Path) -> None:
        """Create a directory and its parents, durably; no error when it exists."""
        missing = [d for d in (directory, *directory.parents) if not d.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        for created in reversed(missing):
            self.fsync_dir(created.parent)

    def fsync_dir(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        if not self._fsync:
            return
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> OsLock:
        """Take the lock file ``path`` until released or dead; raises DirectoryLockedError."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise locked_error(path) from error
            raise
        return OsLock(fd)


class OsFile:
    """A file of the operating system."""

    def __init__(self, fd: int, *, fsync: bool) -> None:
        self._fd = fd
        self._fsync = fsync
        self._size = os.fstat(fd).st_size

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end."""
        self.pwrite(self._size, data)

    def pwrite(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` over what is at ``offset``, which must not be beyond the end."""
        if offset > self._size:
            raise ValueError(f"write at {offset} leaves a hole: the file ends at {self._size}")
        written = os.pwrite(self._fd, data, offset)
        while written < len(data):  # a full disk or a signal cut the write short: go on or raise
            written += os.pwrite(self._fd, data[written:], offset + written)
        self._size = max(self._size, offset + len(data))

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        data = os.pread(self._fd, size, offset)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, size: int) -> None:
        """Drop everything from ``size`` on."""
        os.ftruncate(self._fd, size)
        self._size = size

    def fsync(self) -> None:
        """Make the content durable; may be called from another thread than the other calls."""
        if self._fsync:
            os.fsync(self._fd)

    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._fd

    def close(self) -> None:
        """Release the file, without making anything durable."""
        os.close(self._fd)


class OsLock:
    """A flock; the kernel releases it when the process dies."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._fd)


def locked_error(path: Path) -> DirectoryLockedError:
    """The error of a second process on one directory."""
    return DirectoryLockedError(
        f"{path.parent} is in use by another process (it holds {path}): stop that process, "
        "or give this node a directory of its own"
    )
