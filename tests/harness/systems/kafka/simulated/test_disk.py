"""A partition's folder on a simulated disk: what Kafka's log and snapshots do to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.kafka.simulated.disk import PartitionDisk
from harness.systems.kafka.simulated.packed import Kind
from node.faults.disk.trouble import VirtualTroubles
from node.log.memory_disk import MemoryDisk

FOLDER = Path("/data/partition")


@pytest.fixture
def memory() -> MemoryDisk:
    return MemoryDisk()


def disk_of(
    memory: MemoryDisk, told: list[bytes] | None = None, released: list[bytes] | None = None
) -> PartitionDisk:
    takers = [([] if each is None else each).append for each in (told, released)]
    return PartitionDisk(memory, FOLDER, *takers)


def test_events_are_told_before_the_disk_changes(memory: MemoryDisk) -> None:
    told: list[bytes] = []
    disk = disk_of(memory, told)

    def refuse(operation: str, path: Path) -> None:
        if operation == "append":
            raise OSError(28, "No space left on device", str(path))

    memory.fault = refuse
    disk.create(b"first", "a.log")
    with pytest.raises(OSError, match="No space left"):
        disk.append(b"second", "a.log", b"data")
    assert told == [b"first", b"second"]
    assert disk.read("a.log") == b""


def test_nothing_of_a_file_is_durable_before_its_name_is(memory: MemoryDisk) -> None:
    disk = disk_of(memory)
    disk.create(b"", "a.log")
    disk.append(b"", "a.log", b"data")
    disk.fsync(b"", "a.log")
    assert disk.durable("a.log") == 0
    disk.fsync_names(b"")
    assert disk.durable("a.log") == 4


def test_a_crash_takes_what_was_not_fsynced(memory: MemoryDisk) -> None:
    disk = disk_of(memory)
    disk.create(b"", "a.log")
    disk.append(b"", "a.log", b"kept")
    disk.fsync(b"", "a.log")
    disk.fsync_names(b"")
    disk.append(b"", "a.log", b" and lost")
    disk.create(b"", "b.log")
    assert disk.durable("a.log") == 4
    memory.crash()
    again = disk_of(memory)
    assert again.list() == ["a.log"]
    assert again.read("a.log") == b"kept"
    assert again.read("b.log") is None


def test_a_file_is_put_in_the_place_of_another(memory: MemoryDisk) -> None:
    disk = disk_of(memory)
    for name, content in (("new", b"new"), ("old", b"older")):
        disk.create(b"", name)
        disk.append(b"", name, content)
    disk.rename(b"", "new", "old")
    assert disk.list() == ["old"]
    disk.append(b"", "old", b"er")
    assert disk.read("old") == b"newer"
    disk.truncate(b"", "old", 2)
    assert disk.read("old") == b"ne"
    disk.create(b"", "old")
    assert disk.read("old") == b""
    disk.unlink(b"", "old")
    assert disk.list() == []


def test_what_is_released_before_an_fsync_is_handed_on(memory: MemoryDisk) -> None:
    released: list[bytes] = []
    disk_of(memory, released=released).release(b"an answer")
    assert released == [b"an answer"]


def test_changes_that_were_put_off_are_made_as_calls_make_them(memory: MemoryDisk) -> None:
    disk = disk_of(memory)
    put_off = (
        (Kind.CREATE, 0, b"draft"),
        (Kind.WRITE, 0, b"draft\0a\0b, more"),
        (Kind.TRUNCATE, 3, b"draft"),
        (Kind.FSYNC, 0, b"draft"),
        (Kind.CREATE, 0, b"old"),
        (Kind.RENAME, 0, b"draft\0final"),
        (Kind.UNLINK, 0, b"old"),
        (Kind.FSYNC_NAMES, 0, b""),
    )
    for change in put_off:
        disk.make(*change)
    memory.crash()
    assert disk.list() == ["final"]
    assert disk.read("final") == b"a\0b"
    with pytest.raises(AssertionError, match="no change of kind 21"):
        disk.make(Kind.EVENT, 0, b"")


def test_a_disk_that_may_fail_is_not_sound(memory: MemoryDisk) -> None:
    trouble = VirtualTroubles()
    watched = MemoryDisk(trouble.refuse, lambda: trouble.is_none)
    sound = [disk_of(memory).is_sound, disk_of(watched).is_sound]
    memory.cut_power_at(1)
    trouble.full = True
    assert sound == [True, True]
    assert not disk_of(memory).is_sound
    assert not disk_of(watched).is_sound
    assert not disk_of(MemoryDisk(trouble.refuse)).is_sound
