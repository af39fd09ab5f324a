"""A disk in memory that forgets what was not fsynced, for crash tests and the simulator.

It models the weakest file system the node may meet: until ``fsync`` a crash may undo any suffix
of the changes to a file, until ``fsync_dir`` it undoes creations, renames and removals in that
directory. Changes are kept as an undo journal, so an fsync costs O(1) whatever the file's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from node.log.disk import Lock, locked_error


class PowerCutError(Exception):
    """Raised by every operation once the power is gone, until ``MemoryDisk.crash``."""


Fault = Callable[[str, Path], None]
Changed = Callable[[Path], None]
# How a change is undone: these bytes are put back at an offset, then the file has this length.
Undo = tuple[int, bytes, int]


@dataclass(slots=True)
class Inode:
    """Content of one file, and how to undo each change since the last fsync."""

    data: bytearray = field(default_factory=bytearray)
    undo: list[Undo] = field(default_factory=list)
    read_only: bool = False
    safe: int = field(init=False)  # so many bytes at the beginning no crash can change
    cut: bool = False  # and whether a crash may bring back bytes that were cut or replaced

    def __post_init__(self) -> None:
        self.safe = min([len(self.data), *(at for at, _, _ in self.undo)])
        self.cut = any(old for _, old, _ in self.undo)

    @property
    def size(self) -> int:
        """The length in bytes."""
        return len(self.data)

    def change(self, offset: int, new: bytes, *, truncate: bool = False) -> None:
        """Write ``new`` at ``offset``; with ``truncate`` drop all from there."""
        if offset < self.safe:  # noqa: PLR1730 - a call costs more
            self.safe = offset
        if truncate:
            self.cut = self.cut or offset < len(self.data)
            self.undo.append((offset, bytes(self.data[offset:]), len(self.data)))
            del self.data[offset:]
            return
        end = offset + len(new)
        self.cut = self.cut or offset < len(self.data)
        self.undo.append((offset, bytes(self.data[offset:end]), len(self.data)))
        self.data[offset:end] = new

    def crash(self, rng: Random | None) -> int:
        """Undo all changes since the last fsync, or with ``rng`` a random suffix of them.

        Returns how many bytes at the end of the file are not what they were.
        """
        if not self.undo:
            return 0
        low = min(at for at, _, _ in self.undo)
        before = bytes(self.data[low:])
        kept = rng.randint(0, len(self.undo)) if rng is not None else 0
        torn: bytes | None = None
        position = 0
        while len(self.undo) > kept:
            position, old, size = self.undo.pop()
            end = position + len(old) if size == len(self.data) else len(self.data)
            torn = bytes(self.data[position:end])
            self.data[position : position + len(old)] = old
            del self.data[size:]
            self.data += bytes(size - len(self.data))
        if rng is not None and torn:
            part = torn[: rng.randrange(len(torn) + 1)]
            self.data[position : position + len(part)] = part
        self.settle()
        return len(before) - _common(before, self.data[low:])

    def settle(self) -> None:
        """Make all changes durable."""
        self.undo.clear()
        self.safe, self.cut = len(self.data), False

    def earlier(self) -> Iterator[bytes]:
        """The contents that it had before each change since the last fsync, the newest first."""
        data = bytearray(self.data)
        for position, old, size in reversed(self.undo):
            data[position : position + len(old)] = old
            del data[size:]
            data += bytes(size - len(data))
            yield bytes(data)


@dataclass(frozen=True, slots=True)
class Possible:
    """The contents that a loss of power may leave of a file, each once; None = no such file.

    ``torn``: or some bytes of a change only.
    """

    contents: tuple[bytes | None, ...]
    torn: bool


class MemoryDisk:
    """Files in memory. ``fault`` is called with (operation, path) first and may raise.

    Operations are ``open``, ``append``, ``pwrite``, ``read``, ``truncate``, ``fsync``, ``rename``,
    ``unlink`` and ``fsync_dir``; ``operations`` counts those that can change the disk, and
    ``writing`` holds the bytes of the write that ``fault`` is called for. ``changed``, if anybody,
    is told after each change of a file or of its name, and after each fsync; of a folder, too.
    """

    def __init__(
        self, fault: Fault | None = None, is_harmless: Callable[[], bool] | None = None
    ) -> None:
        self.fault = fault
        self._is_harmless = is_harmless  # tells that ``fault`` would do nothing now
        self.changed: Changed | None = None
        self.syncs = True  # False: fsync and fsync_dir do nothing, as krucible.fsync=false says
        self.operations = 0
        self.writing = b""
        self.cut_at: int | None = None
        self._names: dict[Path, Inode] = {}
        self._unsynced: list[dict[Path, Inode | None]] = []
        self._locks: set[Path] = set()
        self._incarnation = 0

    @classmethod
    def holding(
        cls, names: dict[Path, Inode], unsynced: list[dict[Path, Inode | None]]
    ) -> MemoryDisk:
        """A disk with these files; ``unsynced`` are changes of names, each with what was before."""
        disk = cls()
        disk._names = dict(names)
        disk._unsynced = list(unsynced)
        return disk

    # ------------------------------------------------------------------ what the node uses

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> MemoryFile:
        """Open for reading, and for writing unless told not to or the file is read-only."""
        if write and path in self._names and self._names[path].read_only:
            raise PermissionError(f"{path} is read-only")
        if path in self._names:
            self._before("open", path, changes=False)
        elif create:
            self._before("open", path)
            self._rename_entries({path: Inode()})
        else:
            raise FileNotFoundError(str(path))
        return MemoryFile(self, path, self._names[path])

    def make_read_only(self, path: Path) -> None:
        """Make a file read-only: it can still be renamed and removed."""
        self._existing(path).read_only = True

    def rename(self, source: Path, target: Path) -> None:
        """Atomically put ``source`` in the place of ``target``."""
        self._before("rename", target)
        self._rename_entries({source: None, target: self._existing(source)})

    def unlink(self, path: Path) -> None:
        """Remove a file; raises FileNotFoundError."""
        self._existing(path)
        self._before("unlink", path)
        self._rename_entries({path: None})

    def listdir(self, directory: Path) -> list[str]:
        """Names of the files in a directory, sorted; empty when there is no such directory."""
        self._before("listdir", directory, changes=False)
        return sorted(path.name for path in self._names if path.parent == directory)

    def make_dirs(self, directory: Path) -> None:
        """Directories need no creation here."""

    def fsync_dir(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        self._before("fsync_dir", directory)
        if not self.syncs:
            return
        self._unsynced = [
            change for change in self._unsynced if all(p.parent != directory for p in change)
        ]
        if self.changed is not None:
            self.changed(directory)

    def lock(self, path: Path) -> Lock:
        """Take the lock file ``path`` until released or dead; raises DirectoryLockedError."""
        if path in self._locks:
            raise locked_error(path)
        self._locks.add(path)
        return _MemoryLock(self._locks, path)

    # ------------------------------------------------------------------ what breaks it

    def crash(self, rng: Random | None = None) -> dict[Path, int]:
        """Lose the power and get it back: what was not fsynced is gone, locks are free.

        With ``rng`` a random prefix of the unsynced changes survives, per file with the next one
        torn, and of the names; without, none. Open files are dead. Returns the bytes lost, by
        file; a name that is gone counts with its whole file, be it empty.
        """
        before = dict(self._names)
        lost = {path: inode.crash(rng) for path, inode in sorted(before.items())}
        kept = rng.randint(0, len(self._unsynced)) if rng is not None else 0
        for change in reversed(self._unsynced[kept:]):
            for path, old in change.items():
                if old is None:
                    self._names.pop(path, None)
                else:
                    self._names[path] = old
        self._unsynced.clear()
        for path in sorted(self._names):
            self._names[path].crash(rng)  # of those that are there again
        for path, inode in before.items():
            if self._names.get(path) is not inode:
                lost[path] += len(inode.data)
        gone = {path for path in before if self._names.get(path) is not before[path]}
        self.writing = b""
        self.kill()
        self.cut_at = None
        return {path: size for path, size in lost.items() if size or path in gone}

    @property
    def is_sound(self) -> bool:
        """Tell whether no operation can fail now, so that many can be made at one time."""
        if self.fault is None:
            return self.cut_at is None
        return self.cut_at is None and self._is_harmless is not None and self._is_harmless()

    def has(self, path: Path) -> bool:
        """Tell whether a file is there, to who looks at the disk from outside."""
        return path in self._names

    def sizes(self) -> dict[Path, int]:
        """All files and their lengths in bytes, sorted."""
        return {path: self._names[path].size for path in sorted(self._names)}

    def contents(self) -> dict[Path, Inode]:
        """All files, sorted; not to be changed."""
        return {path: self._names[path] for path in sorted(self._names)}

    def peek(self, path: Path, offset: int, size: int) -> bytes:
        """A part of a file, for who looks at the disk from outside: nothing keeps it from that.

        Empty when the file is not there, or ends before.
        """
        inode = self._names.get(path)
        return b"" if inode is None else bytes(memoryview(inode.data)[offset : offset + size])

    def fsynced_size(self, path: Path) -> int:
        """Give the number of bytes at the beginning of a file that no crash can change."""
        return self._existing(path).safe

    def possible(self, path: Path) -> Possible:
        """Tell what a loss of power in this instant may leave of a file; see ``crash``."""
        held = [change[path] for change in self._unsynced if path in change]
        contents: list[bytes | None] = []
        torn = False
        for inode in (*held, self._names.get(path)):
            for content in (None,) if inode is None else (bytes(inode.data), *inode.earlier()):
                if content not in contents:
                    contents.append(content)
            torn = torn or (inode is not None and bool(inode.undo))
        return Possible(tuple(contents), torn)

    def is_settled(self, path: Path) -> bool:
        """Tell whether a file is there, and its name is so even after a loss of power."""
        return path in self._names and not any(path in change for change in self._unsynced)

    def durability(self, path: Path) -> tuple[int, int, bool] | None:
        """Sum up what is durable of a file, to be compared with what it was before.

        The answer is its identity, how many bytes at its beginning no crash can change, and whether
        one may bring back what was cut; None = no such file.
        """
        inode = self._names.get(path)
        return None if inode is None else (id(inode), inode.safe, inode.cut)

    def undone(self, path: Path) -> list[bytes]:
        """The contents that a file may go back to, if a loss of power may bring back any of it."""
        held = [change[path] for change in self._unsynced if path in change]
        found = [bytes(inode.data) for inode in held if inode is not None]
        inode = self._names.get(path)
        if inode is not None and inode.cut:
            found += inode.earlier()
        return found

    def tear(self, path: Path, rng: Random) -> int:
        """Write a part of the present append into the file; for ``fault``, just before a crash."""
        size = rng.randrange(len(self.writing) + 1)
        inode = self._existing(path)
        inode.change(len(inode.data), self.writing[:size])
        return size

    def kill(self) -> None:
        """Kill the process only: all content stays, open files are dead, locks are free."""
        self._incarnation += 1
        self._locks = set()

    def cut_power_at(self, operation: int) -> None:
        """Fail the ``operation``-th change from now (1 = the next) and everything after it."""
        self.cut_at = self.operations + operation

    def torn(self, path: Path, size: int, *, lose_others: bool) -> MemoryDisk:
        """A copy as the power leaves it in the middle of the present write to the end of ``path``.

        ``size`` bytes of the write made it to the disk, with all before it in that file; with
        ``lose_others`` nothing else did that was not fsynced. To be called from ``fault``.
        """
        copy = self._copy()
        if self.writing:
            torn = copy._names[path]  # noqa: SLF001 - of this very class
            torn.data += self.writing[:size]
            torn.settle()
        if lose_others:
            copy.crash()
        return copy.clone()

    def killed(self) -> MemoryDisk:
        """A copy as a kill of the process leaves it: what was not fsynced is there, until a crash.

        To be called from ``fault``.
        """
        return self._copy()

    def _copy(self) -> MemoryDisk:
        known = [*self._names.values(), *(i for c in self._unsynced for i in c.values() if i)]
        inodes = {
            id(inode): Inode(bytearray(inode.data), list(inode.undo), inode.read_only)
            for inode in known
        }
        copy = MemoryDisk()
        copy._names = {path: inodes[id(inode)] for path, inode in self._names.items()}
        copy._unsynced = [
            {path: inode and inodes[id(inode)] for path, inode in change.items()}
            for change in self._unsynced
        ]
        return copy

    def clone(self) -> MemoryDisk:
        """A disk with the same content, all of it durable: an old copy to restore, say."""
        copy = MemoryDisk()
        copy._names = {
            p: Inode(bytearray(i.data), read_only=i.read_only) for p, i in self._names.items()
        }
        return copy

    def restore(self, copy: MemoryDisk) -> None:
        """Hold from now on what another disk holds; open files are dead."""
        self._names = copy.clone()._names  # noqa: SLF001 - of this very class
        self._unsynced.clear()
        self.kill()

    # ------------------------------------------------------------------ inside

    def _before(self, operation: str, path: Path, *, changes: bool = True) -> None:
        if self.fault is not None:
            self.fault(operation, path)
        if changes:
            self.operations += 1
        if self.cut_at is not None and self.operations >= self.cut_at:
            raise PowerCutError(f"no power at operation {self.operations} ({operation} {path})")

    def _existing(self, path: Path) -> Inode:
        if path not in self._names:
            raise FileNotFoundError(str(path))
        return self._names[path]

    def _rename_entries(self, entries: dict[Path, Inode | None]) -> None:
        """Change directory entries in one step that a crash undoes as a whole."""
        self._unsynced.append({path: self._names.get(path) for path in entries})
        for path, inode in entries.items():
            if inode is None:
                self._names.pop(path, None)
            else:
                self._names[path] = inode
        if self.changed is not None:
            for path in entries:
                self.changed(path)


class MemoryFile:
    """An open file of a MemoryDisk; dead after a crash or kill of its process."""

    def __init__(self, disk: MemoryDisk, path: Path, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._incarnation = disk._incarnation  # noqa: SLF001 - one module, two halves

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end."""
        self._disk.writing = data
        self._before("append")
        self._disk.writing = b""
        self._inode.change(len(self._inode.data), data)
        self._changed()

    def pwrite(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` over what is at ``offset``, which must not be beyond the end."""
        self._before("pwrite")
        if offset > len(self._inode.data):
            raise ValueError(
                f"write at {offset} leaves a hole: the file ends at {len(self._inode.data)}"
            )
        self._inode.change(offset, data)
        self._changed()

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        self._before("read", changes=False)
        return bytes(memoryview(self._inode.data)[offset : offset + size])

    def truncate(self, size: int) -> None:
        """Drop everything from ``size`` on."""
        self._before("truncate")
        self._inode.change(size, b"", truncate=True)
        self._changed()

    def fsync(self) -> None:
        """Make the content durable."""
        self._before("fsync")
        if self._disk.syncs:
            self._inode.settle()
            self._changed()

    def size(self) -> int:
        """Length in bytes."""
        return len(self._inode.data)

    def close(self) -> None:
        """Release the file, without making anything durable."""

    def _changed(self) -> None:
        if self._disk.changed is not None:
            self._disk.changed(self._path)

    def _before(self, operation: str, *, changes: bool = True) -> None:
        if self._incarnation != self._disk._incarnation:  # noqa: SLF001 - as above
            raise PowerCutError(f"{self._path} was opened by a process that is dead")
        self._disk._before(operation, self._path, changes=changes)  # noqa: SLF001


def _common(one: bytes, other: bytearray) -> int:
    """Count the bytes at their beginning that are the same: by halves, as they may be long."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class _MemoryLock:
    locks: set[Path]
    path: Path

    def release(self) -> None:
        self.locks.discard(self.path)
