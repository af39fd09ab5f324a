"""A folder as a file system that can lose its power and misbehave, for any process.

The counterpart of ``node.faults.fault_disk`` for those who have no seam of ours: the same troubles,
and the same journal of what is not durable, so that a power failure takes the same from both.
Folders are durable at once; files cannot be linked. One thread calls, but for what ``fsync``
returns.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from harness.envs.disks.fuse.protocol import NOW, ROOT, SetAttr
from node.faults.disk.journal import DiskJournal
from node.faults.disk.trouble import Troubles

_PASSED_ON: Final = os.O_ACCMODE  # what open(2) wants beyond is the kernel's part
_NO_REPLACE: Final = 1

Entry = tuple[str, int, int]  # name, inode, mode


@dataclass(slots=True)
class _Open:
    node: int
    fd: int
    entries: list[Entry] = field(default_factory=list)  # of a folder


class Files:
    """The files below ``root``; troubles and journal are in ``folder``, on the same file system.

    ``lose_power`` is called in the change that the power is to fail in, and never returns. Files
    whose names end with ``lies_about`` are never durable, though an fsync says so. All methods
    raise OSError as the system call would.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        lose_power: Callable[[], NoReturn],
        *,
        lies_about: str | None = None,
    ) -> None:
        self.troubles = Troubles(folder)
        self.journal = DiskJournal(folder)
        self._lies_about = lies_about
        self._root = root
        self._lose_power = lose_power
        self._paths: dict[int, Path] = {ROOT: root}
        self._nodes: dict[Path, int] = {root: ROOT}
        self._lookups: dict[int, int] = {}
        self._last_node = ROOT
        self._open: dict[int, _Open] = {}
        self._last_handle = 0
        self._syncing: dict[int, threading.Lock] = {}  # by node
        self._order = 0  # the serial of the loss of power that is counted down
        self._left = 0

    # ------------------------------------------------------------------ names

    def lookup(self, parent: int, name: str) -> tuple[int, os.stat_result]:
        """The node of a name, which counts as known to the kernel until it is forgotten."""
        path = self._path(parent) / name
        seen = path.lstat()
        return self._known(path), seen

    def forget(self, node: int, lookups: int) -> None:
        """So many lookups of a node are over."""
        left = self._lookups.get(node, 0) - lookups
        if left > 0 or node == ROOT:
            self._lookups[node] = left
            return
        self._lookups.pop(node, None)
        self._drop(node)

    def mkdir(self, parent: int, name: str, mode: int) -> tuple[int, os.stat_result]:
        """Make a folder."""
        path = self._path(parent) / name
        path.mkdir()
        path.chmod(stat.S_IMODE(mode))
        return self._known(path), path.lstat()

    def mknod(self, parent: int, name: str, mode: int) -> tuple[int, os.stat_result]:
        """Make an empty file; there are no devices."""
        if not stat.S_ISREG(mode):
            raise _refused(errno.EPERM)
        path = self._path(parent) / name
        os.close(self._make(path, mode))
        return self._known(path), path.lstat()

    def create(self, parent: int, name: str, mode: int) -> tuple[int, os.stat_result, int]:
        """Make an empty file and open it: node, attributes, handle."""
        path = self._path(parent) / name
        fd = self._make(path, mode)
        node = self._known(path)
        return node, os.fstat(fd), self._opened(_Open(node, fd))

    def unlink(self, parent: int, name: str) -> None:
        """Remove a file."""
        path = self._path(parent) / name
        self._before("unlink", path)
        self.journal.renamed(path)
        path.unlink()
        self._gone(path)

    def rmdir(self, parent: int, name: str) -> None:
        """Remove an empty folder."""
        path = self._path(parent) / name
        path.rmdir()
        self._gone(path)

    def rename(self, parent: int, old: str, new_parent: int, new: str, flags: int) -> None:
        """Put a file or a folder in the place of another; ``flags`` as of renameat2(2)."""
        source, target = self._path(parent) / old, self._path(new_parent) / new
        if flags & ~_NO_REPLACE:
            raise _refused(errno.EINVAL)
        if flags and target.exists():
            raise _refused(errno.EEXIST)
        self._before("rename", target)
        self.journal.renamed(*_renamed(source, target))
        source.rename(target)
        self._gone(target)
        for path in [path for path in self._nodes if path.is_relative_to(source)]:
            node, moved = self._nodes.pop(path), target / path.relative_to(source)
            self._nodes[moved], self._paths[node] = node, moved

    # ------------------------------------------------------------------ attributes

    def attributes(self, node: int, handle: int | None = None) -> os.stat_result:
        """Give the attributes of a node, by an open handle if there is one."""
        if handle is None and node in self._paths:
            return self._paths[node].lstat()
        with self._file(node, handle) as fd:
            return os.fstat(fd)

    def links(self, node: int) -> int:
        """Count the names of a file; a name that the journal keeps for itself does not count."""
        return int(node in self._paths)

    def set_attributes(self, node: int, wanted: SetAttr) -> os.stat_result:
        """Change a node; its new attributes."""
        access = os.O_RDONLY if wanted.size is None else os.O_RDWR
        with self._file(node, wanted.handle, access) as fd:
            if wanted.size is not None:
                self._truncate(node, fd, wanted.size)
            if wanted.mode is not None:
                os.fchmod(fd, stat.S_IMODE(wanted.mode))
            if wanted.owner is not None:
                os.fchown(fd, *wanted.owner)
            if wanted.times_ns != (None, None):
                _set_times(fd, wanted.times_ns)
            return os.fstat(fd)

    def room(self) -> tuple[os.statvfs_result, bool]:
        """The room there is, and whether it is all taken."""
        return os.statvfs(self._root), self.troubles.now().full

    # ------------------------------------------------------------------ files

    def open(self, node: int, flags: int) -> int:
        """Open a file; its handle."""
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        # What is overwritten must be read.
        access = os.O_RDWR if writes else flags & _PASSED_ON
        return self._opened(_Open(node, os.open(self._path(node), access | os.O_CLOEXEC)))

    def open_nodes(self) -> set[int]:
        """The nodes that somebody has open."""
        return {each.node for each in list(self._open.values())}  # asked from another thread

    def read(self, handle: int, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; fewer only at the end of the file."""
        file = self._open[handle]
        self.troubles.refuse("read", self._named(file.node))
        return os.pread(file.fd, size, offset)

    def write(self, handle: int, offset: int, data: memoryview) -> int:
        """Write all; how many bytes that were."""
        file = self._open[handle]
        path, size = self._named(file.node), os.fstat(file.fd).st_size
        grows = offset + len(data) > size
        self.troubles.refuse("append" if grows else "pwrite", path)
        old = os.pread(file.fd, len(data), offset) if offset < size else b""
        self.journal.changed(file.fd, min(offset, size), old, size)
        if self._power_fails():
            if grows:
                part = int(len(data) * self.troubles.now().torn)
                _write_all(file.fd, data[:part], offset)
            self._lose_power()
        _write_all(file.fd, data, offset)
        return len(data)

    def fsync(self, handle: int) -> Callable[[], None]:
        """Begin to make a file durable; the rest, which takes its time, is for another thread."""
        file = self._open[handle]
        path = self._named(file.node)
        self._before("fsync", path)
        lies = self._lies_about is not None and path.name.endswith(self._lies_about)
        delay_s = self.troubles.delay_s()
        # Two at a time would each take the same changes off the journal, and so later ones.
        alone = self._syncing.setdefault(file.node, threading.Lock())

        def finish() -> None:
            with alone:
                if delay_s:
                    threading.Event().wait(delay_s)
                mark = self.journal.mark(file.fd)
                os.fsync(file.fd)
                if not lies:
                    self.journal.synced(file.fd, mark)

        return finish

    def release(self, handle: int) -> None:
        """Close a handle that nobody uses any more."""
        file = self._open.pop(handle)
        if file.fd >= 0:
            os.close(file.fd)

    # ------------------------------------------------------------------ folders

    def open_folder(self, node: int) -> int:
        """Open a folder with what it holds now; the handle."""
        path = self._path(node)
        here = (path.lstat().st_ino, stat.S_IFDIR)
        with os.scandir(path) as found:
            held = [
                (each.name, each.inode(), each.stat(follow_symlinks=False).st_mode)
                for each in found
            ]
        return self._opened(_Open(node, -1, [(".", *here), ("..", *here), *sorted(held)]))

    def entries(self, handle: int) -> list[Entry]:
        """Give the entries of an open folder, as it was when it was opened."""
        return self._open[handle].entries

    def fsync_folder(self, handle: int) -> None:
        """Make the names in a folder durable."""
        path = self._named(self._open[handle].node)
        self.troubles.refuse("fsync_dir", path)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self.journal.dir_synced(path)

    # ------------------------------------------------------------------ inside

    def _before(self, operation: str, path: Path) -> None:
        """Refuse a change, or lose the power in it, if that is to be."""
        self.troubles.refuse(operation, path)
        if self._power_fails():
            self._lose_power()

    def _power_fails(self) -> bool:
        now = self.troubles.now()
        if now.serial != self._order:
            self._order, self._left = now.serial, now.power_in
        self._left -= 1
        return self._left == 0

    def _make(self, path: Path, mode: int) -> int:
        if not path.exists():
            self.journal.renamed(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        os.fchmod(fd, stat.S_IMODE(mode))
        return fd

    def _truncate(self, node: int, fd: int, size: int) -> None:
        self._before("truncate", self._named(node))
        before = os.fstat(fd).st_size
        # Most of a file that was made large in advance is zeros.
        old = os.pread(fd, before - size, size).rstrip(b"\0") if size < before else b""
        self.journal.changed(fd, min(size, before), old, before)
        os.ftruncate(fd, size)

    def _path(self, node: int) -> Path:
        path = self._paths.get(node)
        if path is None:
            raise _refused(errno.ESTALE)
        return path

    def _named(self, node: int) -> Path:
        """The path of a node for what is said of it; a removed file has none."""
        return self._paths.get(node, self._root)

    def _known(self, path: Path) -> int:
        node = self._nodes.get(path)
        if node is None:
            self._last_node += 1
            node = self._last_node
            self._nodes[path], self._paths[node] = node, path
        self._lookups[node] = self._lookups.get(node, 0) + 1
        return node

    def _gone(self, path: Path) -> None:
        node = self._nodes.get(path)
        if node is not None:
            self._drop(node)

    def _drop(self, node: int) -> None:
        self._syncing.pop(node, None)
        path = self._paths.pop(node, None)
        if path is not None:
            self._nodes.pop(path, None)

    def _opened(self, opened: _Open) -> int:
        self._last_handle += 1
        self._open[self._last_handle] = opened
        return self._last_handle

    @contextmanager
    def _file(self, node: int, handle: int | None, access: int = os.O_RDONLY) -> Iterator[int]:
        """A descriptor of a node, which may be removed and still open."""
        open_as = (h for h, each in self._open.items() if each.node == node and each.fd >= 0)
        handle = next(open_as, None) if handle is None and node not in self._paths else handle
        if handle is not None:
            yield self._open[handle].fd
            return
        fd = os.open(self._path(node), access | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)


def _renamed(source: Path, target: Path) -> list[Path]:
    """All names that a rename changes."""
    if not source.is_dir():
        return [source, target]
    inside = [path for path in source.rglob("*") if path.is_file()]
    return inside + [target / path.relative_to(source) for path in inside]


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(fd, data, offset)
        data, offset = data[done:], offset + done


def _set_times(fd: int, times_ns: tuple[int | None, int | None]) -> None:
    seen = os.fstat(fd)
    if NOW in times_ns:
        os.utime(fd)
    now_ns = os.fstat(fd).st_mtime_ns
    before = (seen.st_atime_ns, seen.st_mtime_ns)
    wanted = zip(times_ns, before, strict=True)
    at, mt = (was if ns is None else now_ns if ns == NOW else ns for ns, was in wanted)
    os.utime(fd, ns=(at, mt))


def _refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))
