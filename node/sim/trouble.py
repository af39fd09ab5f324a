"""What can be wrong with the disk of a simulated host: full, failing, slow, or damaged."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any, Final

from node.log.disk_trouble import refusal
from node.log.layout import partition_dir, segment_base
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import FILE_NAME as META_PROPERTIES

UNCHECKED_BYTES: Final = 17  # at the head of a batch: the CRC begins there, and covers the rest
PROBE_FILE: Final = Path("/probe")  # beside the node's own files, for whoever looks at the disk
TAIL_BYTES_MAX: Final = 300


class DiskTrouble:
    """The state of a disk; ``refused`` and ``slowed`` count what it did to whoever used it."""

    def __init__(self) -> None:
        self.full = False
        self.failing: frozenset[str] = frozenset()
        self.fsync_ns = 0
        self.refused = 0
        self.slowed = 0

    def refuse(self, operation: str, path: Path) -> None:
        """Raise the OSError that an operation meets here, if it meets one."""
        number = refusal(operation, full=self.full, failing=self.failing)
        if number is not None:
            self.refused += 1
            raise OSError(number, os.strerror(number), str(path))


def tear_tail(disk: MemoryDisk, log_dir: Path, rng: Random) -> dict[str, Any]:
    """Lose a part of what was not fsynced at the end of the log, and leave a torn write there.

    File systems may leave zeros, what lay in the blocks before, or half of what was to be written.
    Nobody may have the log open.
    """
    path = _segments(disk, log_dir)[-1]
    file = disk.open(path)
    data = file.read(0, file.size())
    cut = rng.randint(0, len(data) - disk.fsynced_size(path))
    file.truncate(len(data) - cut)
    size = rng.randint(1, TAIL_BYTES_MAX)
    last = data[-size:]
    torn = rng.choice((bytes(size), rng.randbytes(size), last[: len(last) // 2]))
    file.append(torn)
    file.fsync()
    return {"file": path.name, "was_bytes": len(data), "cut_bytes": cut, "torn_bytes": len(torn)}


def flip_bit(disk: MemoryDisk, log_dir: Path, rng: Random) -> dict[str, Any] | None:
    """Flip one bit of the log that a CRC covers; None when there is no record yet."""
    places: list[tuple[Path, int, int]] = []  # of batches: file, from, to
    for path in _segments(disk, log_dir):
        file, at = disk.open(path), 0
        while at < file.size():
            end = at + 12 + int.from_bytes(file.read(at + 8, 4), "big")
            places.append((path, at, end))
            at = end
    if not places:
        return None
    path, begin, end = rng.choice(places)
    at, bit = rng.randrange(begin + UNCHECKED_BYTES, end), rng.randrange(8)
    file = disk.open(path)
    file.pwrite(at, bytes([file.read(at, 1)[0] ^ 1 << bit]))
    file.fsync()
    return {"file": path.name, "byte": at, "bit": bit, "batch_at": begin}


def wipe(disk: MemoryDisk, *, keep_id: bool) -> dict[str, Any]:
    """Put an empty disk in the place of what was there, but for whose it is with ``keep_id``."""
    kept = {META_PROPERTIES} if keep_id else set()
    sizes = {path: size for path, size in disk.sizes().items() if path.name not in kept}
    for path in sizes:
        disk.unlink(path)
        disk.fsync_dir(path.parent)
    return {"files": len(sizes), "bytes": sum(sizes.values())}


def _segments(disk: MemoryDisk, log_dir: Path) -> list[Path]:
    folder = partition_dir(log_dir)
    return [folder / name for name in disk.listdir(folder) if segment_base(name) is not None]
