"""Both disks keep the same contract; the one in memory also forgets on demand."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from node.log.disk import DirectoryLockedError, Disk, FileDisk, read_file, replace_file
from node.log.memory_disk import MemoryDisk, PowerCutError


@pytest.fixture(params=["file", "unsynced file", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    if request.param == "memory":
        return MemoryDisk()
    return FileDisk(fsync=request.param == "file")


def test_files_read_back_what_was_written(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "f", create=True)
    file.append(b"hello ")
    file.append(b"world")
    file.pwrite(4, b"0!")
    assert file.read(0, 100) == b"hell0!world"
    assert file.read(6, 2) == b"wo"
    assert file.read(11, 5) == b""
    file.truncate(5)
    file.append(b"?")
    file.fsync()
    assert file.size() == 6
    file.close()
    assert read_file(disk, tmp_path / "f") == b"hell0?"


def test_a_write_must_not_leave_a_hole(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "f", create=True)
    with pytest.raises(ValueError, match="hole"):
        file.pwrite(1, b"x")
    file.close()


def test_names(disk: Disk, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert disk.listdir(folder) == []
    disk.make_dirs(folder)
    disk.make_dirs(folder)
    for name in ("two", "one"):
        disk.open(folder / name, create=True).close()
    assert disk.listdir(folder) == ["one", "two"]
    disk.rename(folder / "one", folder / "two")
    disk.fsync_dir(folder)
    assert disk.listdir(folder) == ["two"]
    disk.unlink(folder / "two")
    assert disk.listdir(folder) == []
    assert read_file(disk, folder / "two") is None
    with pytest.raises(FileNotFoundError):
        disk.open(folder / "two")
    with pytest.raises(FileNotFoundError):
        disk.unlink(folder / "two")


def test_locks(disk: Disk, tmp_path: Path) -> None:
    lock = disk.lock(tmp_path / ".lock")
    with pytest.raises(DirectoryLockedError, match=str(tmp_path)):
        disk.lock(tmp_path / ".lock")
    lock.release()
    disk.lock(tmp_path / ".lock").release()


def test_replacing_a_file_overwrites_a_longer_leftover(disk: Disk, tmp_path: Path) -> None:
    leftover = disk.open(tmp_path / "f.tmp", create=True)
    leftover.append(b"a much longer leftover of a crash")
    leftover.close()
    replace_file(disk, tmp_path / "f", b"new")
    assert read_file(disk, tmp_path / "f") == b"new"
    assert disk.listdir(tmp_path) == ["f"]


# --------------------------------------------------------------------------- forgetting

F = Path("/d/f")


def test_a_crash_keeps_what_was_fsynced_and_nothing_else() -> None:
    disk = MemoryDisk()
    file = disk.open(F, create=True)
    disk.fsync_dir(F.parent)
    file.append(b"kept")
    file.fsync()
    file.append(b" lost")
    file.pwrite(0, b"K")
    file.truncate(2)
    file.append(b"xyz")
    disk.crash()
    assert read_file(disk, F) == b"kept"


def test_a_name_without_an_fsynced_directory_is_lost() -> None:
    disk = MemoryDisk()
    file = disk.open(F, create=True)
    file.append(b"x")
    file.fsync()
    disk.crash()
    assert read_file(disk, F) is None


def test_renames_and_removals_come_undone_too() -> None:
    disk = MemoryDisk()
    for name in ("a", "b"):
        replace_file(disk, F.with_name(name), name.encode())
    disk.rename(F.with_name("a"), F.with_name("b"))
    disk.crash()
    assert disk.listdir(F.parent) == ["a", "b"]
    assert read_file(disk, F.with_name("b")) == b"b"
    disk.unlink(F.with_name("a"))
    disk.crash()
    assert read_file(disk, F.with_name("a")) == b"a"


def test_with_a_seed_a_crash_keeps_some_prefix_and_may_tear_the_next_write() -> None:
    seen = set()
    for seed in range(200):
        disk = MemoryDisk()
        file = disk.open(F, create=True)
        disk.fsync_dir(F.parent)
        for part in (b"aa", b"bb", b"cc"):
            file.append(part)
        disk.crash(Random(seed))
        content = read_file(disk, F)
        assert content is not None
        assert b"aabbcc".startswith(content)
        seen.add(content)
    assert {b"", b"aab", b"aabbcc"} <= seen


def test_the_same_seed_forgets_the_same() -> None:
    contents = []
    for _ in range(2):
        disk = MemoryDisk()
        file = disk.open(F, create=True)
        for part in range(20):
            file.append(b"%d" % part)
        disk.fsync_dir(F.parent)
        disk.crash(Random(7))
        contents.append(read_file(disk, F))
    assert contents[0] == contents[1]


def test_after_a_crash_old_handles_are_dead_and_locks_free() -> None:
    disk = MemoryDisk()
    file = disk.open(F, create=True)
    disk.lock(F.with_name(".lock"))
    disk.crash()
    with pytest.raises(PowerCutError, match="dead"):
        file.append(b"x")
    disk.lock(F.with_name(".lock"))


def test_a_killed_process_loses_nothing_on_the_disk() -> None:
    disk = MemoryDisk()
    disk.open(F, create=True).append(b"x")
    disk.kill()
    assert read_file(disk, F) == b"x"


def test_power_is_gone_from_the_chosen_operation_on() -> None:
    disk = MemoryDisk()
    disk.cut_power_at(2)
    file = disk.open(F, create=True)
    for _ in range(2):
        with pytest.raises(PowerCutError):
            file.append(b"x")
    disk.crash()
    disk.open(F, create=True).append(b"x")


def test_faults_are_raised_where_they_are_injected() -> None:
    def no_space(operation: str, path: Path) -> None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    disk = MemoryDisk(no_space)
    file = disk.open(F, create=True)
    with pytest.raises(OSError, match="No space"):
        file.append(b"x")
    assert file.size() == 0


def test_a_clone_is_independent() -> None:
    disk = MemoryDisk()
    file = disk.open(F, create=True)
    file.append(b"x")
    copy = disk.clone()
    file.append(b"y")
    copy.crash()
    assert read_file(copy, F) == b"x"
