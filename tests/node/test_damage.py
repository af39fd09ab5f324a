"""``tear_tail`` leaves an incomplete batch at the end of a log."""

from __future__ import annotations

from pathlib import Path
from random import Random

from node.faults.damage import tear_tail
from node.log.layout import partition_dir
from node.log.memory_disk import MemoryDisk

DATA = Path("/data")
BATCH = bytes(8) + (89).to_bytes(4, "big") + b"a whole batch".ljust(89)  # 101 bytes


def test_a_torn_tail_is_never_a_whole_batch() -> None:
    """Half of two batches is one of them, which recovery would rightly read."""
    folder = partition_dir(DATA)
    path = folder / f"{0:020}.log"
    halves = 0
    for seed in range(400):
        disk = MemoryDisk()
        file = disk.open(path, create=True)
        file.append(BATCH * 2)
        file.fsync()
        told = tear_tail(disk, DATA, Random(seed))
        left = file.read(0, file.size())
        assert left.startswith(BATCH * 2)
        assert len(left) == told["was_bytes"] + told["torn_bytes"]
        assert not left[len(BATCH) * 2 :].startswith(BATCH)
        halves += left[len(BATCH) * 2 :] == BATCH[:-1]
    assert halves
