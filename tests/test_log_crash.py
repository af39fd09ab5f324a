"""Power cuts at every single disk operation: what was promised before is there afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from batches import batch

from node.core.messages import Batch
from node.core.types import ElectionState, ReplicaKey
from node.log.file_log import FileLog
from node.log.memory_disk import MemoryDisk, PowerCutError
from node.log.meta_properties import format_directory, load_meta_properties
from node.log.quorum_state import ElectionStateStore

DIR = Path("/node")
DIRECTORY_ID = UUID(int=7 << 64)


@dataclass
class Promises:
    """What the node could have told others before the power went."""

    flushed: list[Batch] = field(default_factory=list)  # must be there
    written: list[Batch] = field(default_factory=list)  # may be there, in this order
    states: list[ElectionState | None] = field(default_factory=lambda: [None])  # one of these is


class Script:
    """A node's storage at work, noting what it may promise."""

    def __init__(self, disk: MemoryDisk, promises: Promises) -> None:
        self.promises = promises
        self.log = FileLog(disk, DIR, segment_bytes=200, cache_bytes=300)
        self.store = ElectionStateStore(disk, DIR)
        self.store.load()

    def append(self, count: int, epoch: int) -> None:
        end = self.log.end_offset
        new = [batch(end + i, b"%d/%d" % (epoch, end + i), epoch=epoch) for i in range(count)]
        self.promises.written += new
        self.log.append_batches(new)

    def flush(self) -> None:
        upto = self.log.flush()
        self.promises.flushed = self.promises.written[:upto]

    def truncate(self, offset: int) -> None:
        del self.promises.flushed[offset:]
        self.log.truncate_to(offset)
        del self.promises.written[offset:]

    def save(self, state: ElectionState) -> None:
        self.promises.states.append(state)
        self.store.save(state)
        self.promises.states = [state]

    def run(self) -> None:
        """Elections, appends over several segments, truncations within and across them."""
        self.save(ElectionState(1, None, ReplicaKey(1, DIRECTORY_ID)))
        self.save(ElectionState(1, 1, ReplicaKey(1, DIRECTORY_ID)))
        self.append(3, epoch=1)
        self.flush()
        self.append(4, epoch=1)
        self.save(ElectionState(2, None, ReplicaKey(2)))
        self.append(2, epoch=2)
        self.flush()
        self.truncate(8)
        self.append(1, epoch=3)
        self.truncate(2)
        self.save(ElectionState(4, 3))
        self.append(5, epoch=4)
        self.flush()
        self.append(2, epoch=4)
        self.log.close()


def check(disk: MemoryDisk, promises: Promises) -> None:
    log = FileLog(disk, DIR, segment_bytes=200)
    found = list(log.batches(0))
    assert found[: len(promises.flushed)] == promises.flushed
    assert found == promises.written[: len(found)]
    assert log.flushed_offset == log.end_offset == len(found)
    epochs = {b.epoch: b.base_offset for b in reversed(found)}
    assert log.epoch_entries == tuple(sorted(epochs.items()))
    state = ElectionStateStore(disk, DIR).load()
    assert state in promises.states
    new = log.append_as_leader(batch(log.end_offset, b"after", epoch=9))
    log.close()
    promises.flushed = promises.written = [*found, new]
    promises.states = [state]


def cut_at_every_operation(run: Callable[[MemoryDisk, Promises], None], seed: int | None) -> int:
    """Runs the script once per disk operation with the power cut there; returns how many."""
    operation = 0
    while True:
        operation += 1
        disk, promises = MemoryDisk(), Promises()
        disk.cut_power_at(operation)
        try:
            run(disk, promises)
        except PowerCutError:
            disk.crash(None if seed is None else Random(seed * 1000 + operation))
            check(disk, promises)
            disk.crash(None)  # what the restart itself made durable must be enough too
            check(disk, promises)
        else:
            return operation


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_no_promise_is_broken_by_a_power_cut(seed: int | None) -> None:
    operations = cut_at_every_operation(lambda d, p: Script(d, p).run(), seed)
    assert operations > 80


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_recovery_itself_may_be_cut_anywhere(seed: int | None) -> None:
    disk, promises = MemoryDisk(), Promises()
    script = Script(disk, promises)
    script.append(9, epoch=1)
    script.flush()
    script.append(4, epoch=1)
    disk.kill()
    last = Path("/node/__cluster_metadata-0/00000000000000000008.log")
    first = Path("/node/__cluster_metadata-0/00000000000000000000.log")
    for damaged, lost in ((last, 8), (first, 0)):
        operation = 0
        while True:
            operation += 1
            copy = disk.clone()
            file = copy.open(damaged)
            file.pwrite(70, b"\xff\xff")
            file.fsync()
            copy.cut_power_at(operation)
            try:
                FileLog(copy, DIR).close()
            except PowerCutError:
                copy.crash(None if seed is None else Random(seed + operation))
            else:
                break
            log = FileLog(copy, DIR)
            assert list(log.batches(0)) == promises.written[: log.end_offset]
            assert log.end_offset == lost
            log.close()
        assert operation > 3


def test_a_log_that_is_never_flushed_does_lose_records() -> None:
    """The test disk forgets: without this the tests above would prove nothing."""
    disk = MemoryDisk()
    script = Script(disk, Promises())
    script.append(3, epoch=1)
    disk.crash()
    log = FileLog(disk, DIR)
    assert log.end_offset == 0
    log.close()


def test_what_a_restarted_process_calls_flushed_survives_a_power_cut() -> None:
    disk, promises = MemoryDisk(), Promises()
    script = Script(disk, promises)
    script.append(9, epoch=1)  # over several segments, only in the page cache
    disk.kill()
    log = FileLog(disk, DIR, segment_bytes=200)
    assert log.flushed_offset == 9
    disk.crash()
    promises.flushed = promises.written
    check(disk, promises)


def test_format_is_all_or_nothing() -> None:
    operation = 0
    while True:
        operation += 1
        disk = MemoryDisk()
        disk.cut_power_at(operation)
        try:
            format_directory(disk, DIR, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
        except PowerCutError:
            disk.crash()
            assert load_meta_properties(disk, DIR) is None
        else:
            break
    assert operation > 4
    disk.crash()
    meta = load_meta_properties(disk, DIR)
    assert meta is not None
    assert meta.directory_id == DIRECTORY_ID
