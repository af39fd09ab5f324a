"""The files of a node that is down as a ``MemoryDisk``, to lose or damage some of it, and back.

So the same code damages real disks and simulated ones, and a power failure takes the same from
both. Nobody else may use the files meanwhile.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from node.faults.disk.journal import DiskJournal
from node.log.memory_disk import Inode, MemoryDisk, Undo

_READ_ONLY: Final = 0o444
_WRITABLE: Final = 0o644
_DRAFT: Final = ".image"


class FileInode(Inode):
    """Content of a real file, which is read when somebody asks for it.

    The disk of a broker has hundreds of files, whose indexes are long and empty: a loss of power
    changes few of them.
    """

    __slots__ = ("_content", "_path", "_size")

    def __init__(self, path: Path, size: int, undo: Sequence[Undo], *, read_only: bool) -> None:
        self._path = path
        self._size = size
        self._content: bytearray | None = None
        self.undo = list(undo)
        self.read_only = read_only
        self.safe = min([size, *(at for at, _, _ in self.undo)])
        self.cut = any(old for _, old, _ in self.undo)

    @property
    def data(self) -> bytearray:
        """The content."""
        if self._content is None:
            self._content = bytearray(self._path.read_bytes())
        return self._content

    @data.setter
    def data(self, content: bytearray) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """The length in bytes, which the file itself tells until it is read."""
        return self._size if self._content is None else len(self._content)

    def lies_at(self, path: Path) -> bool:
        """Tell whether the real file there has this content already, as nobody has asked for it."""
        return self._content is None and self._path == path


def load(root: Path, journal: DiskJournal) -> MemoryDisk:
    """The files below ``root`` with all that is not durable; takes memory for what is looked at."""
    inodes: dict[int, Inode] = {}

    def read(path: Path) -> Inode:
        found = path.stat()
        known = inodes.get(found.st_ino)
        if known is None:
            undo = journal.changes.get(found.st_ino, ())
            is_read_only = not found.st_mode & stat.S_IWUSR
            known = FileInode(path, found.st_size, undo, read_only=is_read_only)
            inodes[found.st_ino] = known
        return known

    names = {path: read(path) for path in _files(root)}
    unsynced = [
        {path: None if inode is None else read(journal.kept(inode)) for path, inode in old.items()}
        for old in journal.names
    ]
    return MemoryDisk.holding(names, unsynced)


def store(root: Path, journal: DiskJournal, disk: MemoryDisk) -> None:
    """Write the disk's files below ``root`` in place of those there; they are durable then."""
    wanted = disk.contents()
    # Read now: who has it may be gone when it is written.
    new = {path: inode.data for path, inode in wanted.items() if not _lies_at(inode, path)}
    for path in _files(root):
        if path not in wanted:
            path.unlink()
    for path, inode in wanted.items():
        if path in new and not (path.exists() and path.read_bytes() == new[path]):
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(path.name + _DRAFT)
            draft.write_bytes(new[path])
            draft.replace(path)
        path.chmod(_READ_ONLY if inode.read_only else _WRITABLE)
    journal.clear()


def _lies_at(inode: Inode, path: Path) -> bool:
    return isinstance(inode, FileInode) and inode.lies_at(path)


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
