"""Files of a simulated disk that are lost while nobody has them open: a tail, a vote, snapshots."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from node.log.disk import read_file, replace_file
from node.log.layout import BOOTSTRAP_SNAPSHOT, partition_dir, segment_base, snapshot_of_name
from node.log.memory_disk import MemoryDisk
from node.log.quorum_state import FILE_NAME as QUORUM_STATE


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
