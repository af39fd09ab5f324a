"""A disk with troubles, under a node that runs: the live counterpart of the simulator's disk.

It passes everything on to the host's file system, but for what ``disk_trouble`` says, and writes
down in ``disk_journal`` what would be lost if the power failed now. Who runs a node sets
``KRUCIBLE_DISK_FAULTS`` in its environment to a folder for both, beside its disk; nothing of this
is there without.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from node.faults.disk.journal import DiskJournal
from node.faults.disk.trouble import Troubles
from node.log.disk import Disk, FileDisk, Lock, OsFile

VARIABLE: Final = "KRUCIBLE_DISK_FAULTS"
_KILLED: Final = 128 + signal.SIGKILL  # the exit code that says so


def disk_of(environ: Mapping[str, str], *, fsync: bool) -> Disk:
    """The host's disk, or a fault disk where the environment names its folder."""
    folder = environ.get(VARIABLE)
    return FaultDisk(Path(folder), fsync=fsync) if folder else FileDisk(fsync=fsync)


class FaultDisk:
    """The host's file system with troubles, which are ordered and told in ``folder``."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.troubles = Troubles(folder)
        self.journal = DiskJournal(folder)
        self.syncs = fsync
        self._disk = FileDisk(fsync=fsync)
        self._order = 0  # the serial of the loss of power that is counted down
        self._left = 0

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> FaultFile:
        """Open for reading, and for writing unless told not to."""
        if create and not path.exists():
            self.journal.renamed(path)
        return FaultFile(self, path, self._disk.open(path, create=create, write=write))

    def make_read_only(self, path: Path) -> None:
        """Make a file read-only: nobody can write to it any more, but rename and remove it."""
        self._disk.make_read_only(path)

    def rename(self, source: Path, target: Path) -> None:
        """Atomically put ``source`` in the place of ``target``."""
        self.before("rename", target)
        self.journal.renamed(source, target)
        self._disk.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file; raises FileNotFoundError."""
        self.before("unlink", path)
        self.journal.renamed(path)
        self._disk.unlink(path)

    def listdir(self, directory: Path) -> list[str]:
        """Names of the files in a directory, sorted; empty when there is no such directory."""
        return self._disk.listdir(directory)

    def make_dirs(self, directory: Path) -> None:
        """Create a directory and its parents, durably; no error when it exists."""
        self._disk.make_dirs(directory)

    def fsync_dir(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        self.troubles.refuse("fsync_dir", directory)
        self._disk.fsync_dir(directory)
        if self.syncs:
            self.journal.dir_synced(directory)

    def lock(self, path: Path) -> Lock:
        """Take the lock file ``path`` until released or dead; raises DirectoryLockedError."""
        return self._disk.lock(path)

    def before(self, operation: str, path: Path) -> None:
        """Refuse a change, or lose the power in it, if that is to be."""
        self.troubles.refuse(operation, path)
        if self.power_fails():
            lose_power()

    def power_fails(self) -> bool:
        """Count this change of the disk, and tell whether the power is to fail in it."""
        now = self.troubles.now()
        if now.serial != self._order:
            self._order, self._left = now.serial, now.power_in
        self._left -= 1
        return self._left == 0


class FaultFile:
    """An open file of a fault disk."""

    def __init__(self, disk: FaultDisk, path: Path, file: OsFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end."""
        self._disk.troubles.refuse("append", self._path)
        size = self._file.size()
        self._disk.journal.changed(self._file.fileno(), size, b"", size)
        if self._disk.power_fails():
            self._file.append(data[: int(len(data) * self._disk.troubles.now().torn)])
            lose_power()
        self._file.append(data)

    def pwrite(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` over what is at ``offset``, which must not be beyond the end."""
        self._disk.before("pwrite", self._path)
        self._journal(offset, len(data))
        self._file.pwrite(offset, data)

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        self._disk.troubles.refuse("read", self._path)
        return self._file.read(offset, size)

    def truncate(self, size: int) -> None:
        """Drop everything from ``size`` on."""
        self._disk.before("truncate", self._path)
        self._journal(size, self._file.size() - size)
        self._file.truncate(size)

    def fsync(self) -> None:
        """Make the content durable; may be called from another thread than the other calls."""
        disk = self._disk
        disk.before("fsync", self._path)
        mark = disk.journal.mark(self._file.fileno())
        delay_s = disk.troubles.delay_s()
        if delay_s:
            threading.Event().wait(delay_s)  # the sleep that a shifted clock does not break
        self._file.fsync()
        if disk.syncs:
            disk.journal.synced(self._file.fileno(), mark)

    def size(self) -> int:
        """Length in bytes."""
        return self._file.size()

    def close(self) -> None:
        """Release the file, without making anything durable."""
        self._file.close()

    def _journal(self, at: int, size: int) -> None:
        old = self._file.read(at, max(0, size))
        self._disk.journal.changed(self._file.fileno(), at, old, self._file.size())


def lose_power() -> NoReturn:
    """End here and now; what becomes of the disk is decided by whoever ordered it."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(_KILLED)  # a container's first process is not hit by a signal of its own
