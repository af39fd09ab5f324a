"""The disk with troubles: it forgets as the simulated disk does, and refuses as it is told."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.faults.disk.image import load, store
from node.faults.disk.journal import DiskJournal
from node.faults.disk.trouble import FAILING, Trouble, Troubles, order
from node.faults.fault_disk import VARIABLE, FaultDisk, disk_of
from node.log.disk import Disk, FileDisk
from node.log.memory_disk import MemoryDisk

NAMES = ("a", "b", "c")
OPERATIONS = ("create", "append", "pwrite", "truncate", "fsync", "rename", "unlink", "fsync_dir")
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), *[st.integers(0, 8)] * 3), max_size=30)


def do(disk: Disk, root: Path, step: tuple[str, int, int, int]) -> None:
    """One step of a script; what cannot be done is left out, on every disk alike."""
    operation, one, two, size = step
    path, other = root / NAMES[one % 3], root / NAMES[two % 3]
    if operation == "fsync_dir":
        disk.fsync_dir(root)
        return
    if operation == "create":
        disk.open(path, create=True).close()
        return
    if path.name not in disk.listdir(root):
        return
    if operation == "unlink":
        disk.unlink(path)
    elif operation == "rename" and path != other:
        disk.rename(path, other)
    elif operation in ("append", "pwrite", "truncate", "fsync"):
        file = disk.open(path)
        at = min(two, file.size())
        if operation == "append":
            file.append(bytes([65 + one]) * size)
        elif operation == "pwrite":
            file.pwrite(at, bytes([97 + one]) * size)
        elif operation == "truncate":
            file.truncate(at)
        else:
            file.fsync()
        file.close()


def files(root: Path) -> dict[str, bytes]:
    """What lies below a folder."""
    return {path.name: path.read_bytes() for path in root.iterdir()}


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, cut=st.integers(0, 30), seed=st.none() | st.integers(0, 9))
def test_a_power_failure_takes_from_files_what_it_takes_from_a_simulated_disk(
    steps: list[tuple[str, int, int, int]], cut: int, seed: int | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root, folder, memory = Path(name) / "data", Path(name) / "faults", MemoryDisk()
        root.mkdir()
        for part in (steps[:cut], steps[cut:]):  # two processes: a kill is no loss of power
            disk = FaultDisk(folder)
            for step in part:
                do(disk, root, step)
                do(memory, root, step)
            disk.journal.close()
        assert files(root) == {p.name: bytes(i.data) for p, i in memory.contents().items()}

        journal = DiskJournal(folder)
        image = load(root, journal)
        rng = [None if seed is None else Random(seed) for _ in range(2)]
        lost = image.crash(rng[0])
        if seed is None:
            assert lost == memory.crash(rng[1])
            assert image.sizes() == memory.sizes()
        store(root, journal, image)
        assert files(root) == {p.name: bytes(i.data) for p, i in image.contents().items()}
        assert (journal.changes, journal.names) == ({}, [])
        assert not list((folder / "kept").iterdir())
        journal.close()


def test_what_is_durable_leaves_nothing_in_the_journal(tmp_path: Path) -> None:
    disk = FaultDisk(tmp_path / "faults")
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"abc")
    assert (tmp_path / "faults/journal").stat().st_size > 0
    file.fsync()
    disk.fsync_dir(tmp_path)
    assert (tmp_path / "faults/journal").stat().st_size == 0
    assert not list((tmp_path / "faults/kept").iterdir())


def test_a_loss_of_power_reads_no_file_that_it_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker has hundreds of indexes of 10 MB each, all but empty."""
    root = tmp_path / "data"
    root.mkdir()
    for name in ("index", "renamed", "log"):
        (root / name).write_bytes(b"durable")
    disk = FaultDisk(tmp_path / "faults")
    file = disk.open(root / "log")
    file.append(b", and what is not")
    file.close()
    disk.rename(root / "renamed", root / "new")
    journal = DiskJournal(tmp_path / "faults")
    read, real = list[str](), Path.read_bytes

    def spy(path: Path) -> bytes:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", spy)
    image = load(root, journal)
    assert image.sizes()[root / "index"] == len(b"durable")
    image.crash()
    store(root, journal, image)
    journal.close()
    assert "index" not in read
    assert files(root) == dict.fromkeys(("index", "renamed", "log"), b"durable")


def test_a_torn_line_at_the_end_of_the_journal_is_of_a_change_that_never_was(
    tmp_path: Path,
) -> None:
    disk = FaultDisk(tmp_path / "faults")
    disk.open(tmp_path / "log", create=True).append(b"abc")
    journal = tmp_path / "faults/journal"
    journal.write_bytes(journal.read_bytes() + b'["change", 7')
    assert DiskJournal(tmp_path / "faults").changes == disk.journal.changes


def test_without_fsync_nothing_becomes_durable(tmp_path: Path) -> None:
    disk = FaultDisk(tmp_path / "faults", fsync=False)
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"abc")
    file.fsync()
    disk.fsync_dir(tmp_path)
    assert disk.journal.names
    assert len(disk.journal.changes) == 1


@pytest.mark.parametrize(
    ("trouble", "refused", "number"),
    [
        (Trouble(full=True), {"append"}, errno.ENOSPC),
        (Trouble(failing=FAILING["fsync"]), {"fsync"}, errno.EIO),
        (Trouble(failing=FAILING["read"]), {"read"}, errno.EIO),
        (Trouble(failing=FAILING["write"]), {"append", "pwrite", "truncate"}, errno.EIO),
        (Trouble(fsync_ms=1), set(), 0),
    ],
    ids=["full", "fsync", "read", "write", "slow"],
)
def test_troubles_come_and_go_while_files_are_open(
    tmp_path: Path, trouble: Trouble, refused: set[str], number: int
) -> None:
    disk = FaultDisk(tmp_path / "faults")
    file = disk.open(tmp_path / "log", create=True)
    file.append(b"0123456789")
    calls = {
        "append": lambda: file.append(b"x"),
        "pwrite": lambda: file.pwrite(0, b"y"),
        "truncate": lambda: file.truncate(9),
        "read": lambda: file.read(0, 1),
        "fsync": file.fsync,
    }
    order(tmp_path / "faults", trouble)
    for name, call in calls.items():
        if name in refused:
            with pytest.raises(OSError, match=rf"\[Errno {number}\]"):
                call()
        else:
            call()
    counted = Troubles(tmp_path / "faults").counts()
    assert counted == (len(refused), int(trouble.fsync_ms > 0))
    order(tmp_path / "faults", Trouble())
    for call in calls.values():
        call()
    assert Troubles(tmp_path / "faults").counts() == counted


def test_it_is_there_only_where_the_environment_says_so(tmp_path: Path) -> None:
    assert isinstance(disk_of({}, fsync=True), FileDisk)
    assert isinstance(disk_of({VARIABLE: str(tmp_path / "f")}, fsync=True), FaultDisk)
