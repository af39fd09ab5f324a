"""Damages the files of a node that is down: torn tails, flipped bits, lost files.

The simulator does this to its disks, and ``Hands`` to an image of real files.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

from node.log.disk import read_file, replace_file
from node.log.layout import BOOTSTRAP_SNAPSHOT, partition_dir, segment_base, snapshot_of_name
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import FILE_NAME as META_PROPERTIES
from node.log.quorum_state import FILE_NAME as QUORUM_STATE

UNCHECKED_BYTES: Final = 17  # at the head of a batch: the CRC begins there, and covers the rest
LENGTH_BYTES: Final = 12  # at the head of a batch: its offset, and how long the rest is
TAIL_BYTES_MAX: Final = 300


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
    torn = rng.choice((bytes(size), rng.randbytes(size), _half(last)))
    file.append(torn)
    file.fsync()
    return {"file": path.name, "was_bytes": len(data), "cut_bytes": cut, "torn_bytes": len(torn)}


def _half(last: bytes) -> bytes:
    """Give the first half of bytes; less of it, where that would begin with a whole batch."""
    half = last[: len(last) // 2]
    size = LENGTH_BYTES + int.from_bytes(half[8:LENGTH_BYTES], "big")
    return half[: size - 1] if LENGTH_BYTES <= size <= len(half) else half


def flip_bit(disk: MemoryDisk, log_dir: Path, rng: Random) -> dict[str, Any] | None:
    """Flip one bit of the log that a CRC covers; None when there is no record yet."""
    places: list[tuple[Path, int, int]] = []  # of batches: file, from, to
    for path in _segments(disk, log_dir):
        file, at = disk.open(path), 0
        while at < file.size():
            end = at + LENGTH_BYTES + int.from_bytes(file.read(at + 8, 4), "big")
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


def cut_tail(disk: MemoryDisk, log_dir: Path, rng: Random) -> dict[str, Any] | None:
    """Cut fsynced bytes off the end of the newest segment; None when it holds none."""
    folder = partition_dir(log_dir)
    names = [name for name in disk.listdir(folder) if segment_base(name) is not None]
    file = disk.open(folder / names[-1])
    size = file.size()
    if not size:
        return None
    cut = rng.randint(1, size) if rng.random() < 0.5 else min(size, rng.randint(1, 300))  # noqa: PLR2004
    file.truncate(size - cut)
    file.fsync()
    return {"file": names[-1], "was_bytes": size, "cut_bytes": cut}


def lose_vote(disk: MemoryDisk, log_dir: Path) -> dict[str, Any] | None:
    """Delete quorum-state, and with it epoch and vote; None when there is none."""
    path = partition_dir(log_dir) / QUORUM_STATE
    content = read_file(disk, path)
    if content is None:
        return None
    disk.unlink(path)
    disk.fsync_dir(path.parent)
    return {"file": path.name, "was": content.decode()}


def lose_snapshots(disk: MemoryDisk, log_dir: Path) -> dict[Path, bytes]:
    """Delete all snapshots but the one that formatting made; returns what they were."""
    folder, lost = partition_dir(log_dir), {}
    for name in disk.listdir(folder):
        snapshot = snapshot_of_name(name)
        if snapshot is not None and snapshot != BOOTSTRAP_SNAPSHOT:
            lost[folder / name] = read_file(disk, folder / name) or b""
            disk.unlink(folder / name)
    disk.fsync_dir(folder)
    return lost


def put_back(disk: MemoryDisk, files: dict[Path, bytes]) -> None:
    """Write files that were lost as they were, but for those that are there again."""
    there = disk.sizes()
    for path, content in files.items():
        if path not in there:
            replace_file(disk, path, content)
            disk.make_read_only(path)


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
