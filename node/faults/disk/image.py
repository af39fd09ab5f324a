"""The files of a node that is down as a ``MemoryDisk``, to lose or damage some of it, and back.

So the same code damages real disks and simulated ones, and a power failure takes the same from
both. Nobody else may use the files meanwhile.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from node.faults.disk.journal import DiskJournal
from node.log.memory_disk import Inode, MemoryDisk

_READ_ONLY: Final = 0o444
_WRITABLE: Final = 0o644
_DRAFT: Final = ".image"


def load(root: Path, journal: DiskJournal) -> MemoryDisk:
    """The files below ``root`` with all that is not durable; takes memory for all of them."""
    inodes: dict[int, Inode] = {}

    def read(path: Path) -> Inode:
        found = path.stat()
        known = inodes.get(found.st_ino)
        if known is None:
            undo = journal.changes.get(found.st_ino, ())
            known = inodes[found.st_ino] = Inode(
                bytearray(path.read_bytes()),
                list(undo),
                read_only=not found.st_mode & stat.S_IWUSR,
            )
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
    for path in _files(root):
        if path not in wanted:
            path.unlink()
    for path, inode in wanted.items():
        if not path.exists() or path.read_bytes() != inode.data:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(path.name + _DRAFT)
            draft.write_bytes(inode.data)
            draft.replace(path)
        path.chmod(_READ_ONLY if inode.read_only else _WRITABLE)
    journal.clear()


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
