"""A file system of ours under any process: what it loses with the power, and how it misbehaves."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agent import mounts
from harness.envs.disks.fuse.disk import entering
from harness.envs.disks.fuse.files import Files
from harness.envs.disks.fuse.server import POWER_LOST
from node.faults.disk.image import load
from node.faults.disk.journal import DiskJournal
from node.faults.disk.trouble import FAILING, Trouble, Troubles, order
from node.faults.hands import Hands
from node.log.memory_disk import MemoryDisk

REASON = mounts.cannot_mount()
can_mount = pytest.mark.skipif(REASON is not None, reason=str(REASON))
SOURCE = "krucible:test:n1"


class Mounted:
    """A node's folder with the file system under ``data``, and programs that use it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.data, self.faults = folder / "data", folder / "faults"
        self.data.mkdir(exist_ok=True)
        self.faults.mkdir(exist_ok=True)
        argv = [
            sys.executable,
            "-m",
            "harness.envs.disks.fuse.server",
            str(self.data),
            str(self.faults),
        ]
        self.server = subprocess.Popen([*argv, SOURCE, *options])
        self.task = self._await_mount()

    def _await_mount(self) -> int:
        until = time.monotonic() + 20
        while time.monotonic() < until and self.server.poll() is None:
            task = mounts.holder(self.server.pid, SOURCE)
            if task is not None:
                return task
            time.sleep(0.005)
        raise AssertionError("it does not come up")

    def start(self, program: str) -> subprocess.Popen[str]:
        """Run Python inside, in the node's folder."""
        argv = entering(self.server.pid, self.task, [sys.executable, "-c", program])
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, stdin=pipe, stdout=pipe, text=True)

    def run(self, program: str) -> tuple[int, str]:
        """Run it to its end: exit code and output."""
        process = self.start(program)
        out, _ = process.communicate(timeout=20)
        return process.returncode, out

    def unmount(self) -> None:
        """Which is to kill the server."""
        self.server.kill()
        self.server.wait()

    def lose_power(self, seed: int = 1, *, clean: bool = False) -> dict[str, int]:
        """What of the files is lost, by name."""
        self.unmount()
        lost: dict[str, int] = Hands(self.folder).crash(seed, clean=clean)["lost"]
        return lost

    def worst(self) -> dict[str, bytes]:
        """What would be left if the power took all that it may; nothing is changed."""
        journal = DiskJournal(self.faults)
        image = load(self.data, journal)
        journal.close()
        image.crash()
        left = image.contents().items()
        return {str(path.relative_to(self.data)): bytes(inode.data) for path, inode in left}

    def files(self) -> dict[str, bytes]:
        """What the folder below holds."""
        found = (path for path in self.data.rglob("*") if path.is_file())
        return {str(path.relative_to(self.data)): path.read_bytes() for path in found}


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    made = Mounted(tmp_path)
    yield made
    made.unmount()


BEGIN = """
import errno, fcntl, json, mmap, os, signal, sys
def sync(path):
    fd = os.open(path, os.O_RDONLY); os.fsync(fd); os.close(fd)
def attempt(do):
    try: do()
    except OSError as error: return errno.errorcode[error.errno]
    return "done"
"""


# --------------------------------------------------------------------------- an ordinary process


@can_mount
def test_an_ordinary_process_finds_an_ordinary_file_system(mounted: Mounted) -> None:
    code, out = mounted.run(
        BEGIN
        + """
os.mkdir("data/log", 0o750)
with open("data/log/0.log", "xb", buffering=0) as file:
    file.write(b"x" * 300_000)
    file.seek(100_000); file.write(b"y")
    file.truncate(200_000)
    assert file.seek(0, os.SEEK_END) == 200_000
with open("data/log/0.log", "ab") as file: file.write(b"end")
assert open("data/log/0.log", "rb").read() == b"x" * 100_000 + b"y" + b"x" * 99_999 + b"end"
os.chmod("data/log/0.log", 0o444); os.utime("data/log/0.log", ns=(5_000_000_007, 6_000_000_008))
seen = os.stat("data/log/0.log")
assert (seen.st_mode & 0o777, seen.st_atime_ns, seen.st_mtime_ns, seen.st_nlink) == \\
    (0o444, 5_000_000_007, 6_000_000_008, 1), seen
open("data/log/b", "w").close()
os.rename("data/log/0.log", "data/log/b")
os.rename("data/log", "data/log2")
assert sorted(os.listdir("data/log2")) == ["b"]
with open("data/log2/b", "rb") as file:
    os.unlink("data/log2/b")
    assert file.read(1) == b"x" and os.fstat(file.fileno()).st_nlink == 0
assert attempt(lambda: os.stat("data/log2/b")) == "ENOENT"
os.mkdir("data/many")
for number in range(500): open(f"data/many/{number:040}", "w").close()
assert len(os.listdir("data/many")) == 500
assert attempt(lambda: os.rmdir("data/many")) == "ENOTEMPTY"
os.rmdir("data/log2")
assert attempt(lambda: os.link(f"data/many/{0:040}", "data/hard")) in ("ENOSYS", "EPERM")
lock = open("data/.lock", "w"); fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
assert os.statvfs("data").f_bfree > 0
print("all")
"""
    )
    assert (code, out) == (0, "all\n")
    assert mounted.files()[f"many/{499:040}"] == b""


@can_mount
def test_memory_that_is_mapped_is_written_when_it_is_flushed_and_when_the_process_is_killed(
    mounted: Mounted,
) -> None:
    code, _ = mounted.run(
        BEGIN
        + """
fd = os.open("data/index", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 10 << 20)
memory = mmap.mmap(fd, 10 << 20); os.close(fd); sync("data")
memory[5000:5005] = b"first"; memory.flush()
assert open("data/index", "rb").read()[5000:5005] == b"first"
memory[9000:9004] = b"last"
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert code == -signal.SIGKILL
    index = mounted.files()["index"]
    assert (index[5000:5005], index[9000:9004], len(index)) == (b"first", b"last", 10 << 20)
    assert (mounted.faults / "journal").stat().st_size < 100_000, "not the whole file each time"
    left = mounted.worst()["index"]
    assert (left[5000:5005], left[9000:9004]) == (b"first", bytes(4)), "an msync is durable"


# --------------------------------------------------------------------------- power


WRITES = (
    BEGIN
    + """
log = open("data/log", "wb", buffering=0)
log.write(b"durable"); os.fsync(log.fileno()); sync("data")
log.write(b"lost")
open("data/forgotten", "w").write("no name")
os.rename("data/old", "data/new")
os.kill(os.getpid(), signal.SIGKILL)
"""
)


@can_mount
def test_a_power_failure_takes_what_was_not_fsynced_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/old").write_bytes(b"kept")
    mounted = Mounted(tmp_path)
    mounted.run(WRITES)
    everything = {"log": b"durablelost", "new": b"kept", "forgotten": b"no name"}
    assert mounted.files() == everything, "a kill alone takes nothing"
    assert mounted.worst() == {"log": b"durable", "old": b"kept"}
    lost = mounted.lose_power(seed=2)
    files = mounted.files()
    assert files["log"] in [b"durablelost"[:end] for end in range(7, 12)]
    assert files.get("old", files.get("new")) == b"kept"
    assert set(lost) <= {"log", "new", "forgotten"}
    assert (mounted.faults / "journal").stat().st_size == 0, "what is there now is durable"


@can_mount
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_clean_power_failure_takes_all_that_was_not_fsynced(tmp_path: Path, seed: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/old").write_bytes(b"kept")
    mounted = Mounted(tmp_path)
    mounted.run(WRITES)
    worst = mounted.worst()
    mounted.lose_power(seed, clean=True)
    assert mounted.files() == worst == {"log": b"durable", "old": b"kept"}


@can_mount
def test_a_disk_that_lies_loses_what_was_fsynced_of_the_files_that_it_lies_about(
    tmp_path: Path,
) -> None:
    mounted = Mounted(tmp_path, ".log")
    code, _ = mounted.run(
        BEGIN
        + """
for name in ("data/0.log", "data/other"):
    file = open(name, "w"); file.write("all"); file.flush(); os.fsync(file.fileno())
sync("data")
"""
    )
    mounted.unmount()
    assert code == 0
    assert mounted.files() == {"0.log": b"all", "other": b"all"}
    assert mounted.worst() == {"0.log": b"", "other": b"all"}


@can_mount
def test_power_that_fails_within_a_write_tears_it_and_ends_the_process(mounted: Mounted) -> None:
    order(mounted.faults, Trouble(power_in=3, torn=0.5, serial=1))
    code, out = mounted.run(
        BEGIN
        + """
log = open("data/log", "wb", buffering=0)
print("opened", flush=True)
log.write(b"1234"); os.fsync(log.fileno()); log.write(b"5678")
print("never", flush=True)
"""
    )
    assert (code, out) == (-signal.SIGKILL, "opened\n")
    assert mounted.server.wait(5) == POWER_LOST
    assert mounted.files() == {"log": b"123456"}


# --------------------------------------------------------------------------- troubles


PROBE = (
    BEGIN
    + """
log = open("data/log", "r+b", buffering=0)
def fresh(): open("data/log", "rb").read()
def append(): os.pwrite(log.fileno(), b"x", os.fstat(log.fileno()).st_size)
def fsync(): append(); os.fsync(log.fileno())
each = {"append": append, "overwrite": lambda: os.pwrite(log.fileno(), b"y", 0),
        "truncate": lambda: log.truncate(5), "read": fresh,
        "fsync": lambda: os.fsync(log.fileno()), "fsync_dir": lambda: sync("data")}
for line in sys.stdin:
    print(json.dumps({name: attempt(do) for name, do in each.items()}), flush=True)
"""
)


@can_mount
def test_a_disk_that_is_full_or_fails_is_met_inside_and_is_well_after_the_heal(
    mounted: Mounted,
) -> None:
    (mounted.data / "log").write_bytes(b"0123456789")
    process = mounted.start(PROBE)
    answers = process.stdout
    assert answers is not None

    def met() -> dict[str, str]:
        print(file=process.stdin, flush=True)
        seen: dict[str, str] = json.loads(answers.readline())
        return {name: said for name, said in seen.items() if said != "done"}

    assert met() == {}
    refused = 0
    for trouble, expected in (
        (Trouble(full=True), {"append": "ENOSPC"}),
        (
            Trouble(failing=FAILING["write"]),
            dict.fromkeys(("append", "overwrite", "truncate"), "EIO"),
        ),
        (Trouble(failing=FAILING["fsync"]), dict.fromkeys(("fsync", "fsync_dir"), "EIO")),
    ):
        order(mounted.faults, trouble)
        assert met() == expected
        refused += len(expected)
        assert Troubles(mounted.faults).counts() == (refused, 0)
        order(mounted.faults, Trouble())
        assert met() == {}
    order(mounted.faults, Trouble(failing=FAILING["read"]))
    until = time.monotonic() + 10
    while met() != {"read": "EIO"}:  # what the kernel has cached it drops by and by
        assert time.monotonic() < until
    order(mounted.faults, Trouble())
    assert met() == {}
    process.communicate(timeout=5)
    assert process.returncode == 0


@can_mount
def test_a_slow_fsync_is_slow_inside_and_keeps_nobody_else_waiting(mounted: Mounted) -> None:
    order(mounted.faults, Trouble(fsync_ms=400))
    code, out = mounted.run(
        BEGIN
        + """
import threading, time
log = open("data/log", "wb", buffering=0); log.write(b"x")
began = time.monotonic()
slow = threading.Thread(target=os.fsync, args=(log.fileno(),)); slow.start()
while time.monotonic() < began + 0.1: pass
open("data/other", "w").write("y")
waits = slow.is_alive()
slow.join()
print(waits, time.monotonic() - began >= 0.4)
"""
    )
    assert (code, out) == (0, "True True\n")
    assert Troubles(mounted.faults).counts() == (0, 1)


@can_mount
def test_a_dead_server_is_an_error_and_never_a_hang(mounted: Mounted) -> None:
    process = mounted.start(
        BEGIN
        + """
log = open("data/log", "wb", buffering=0)
print("ready", flush=True); sys.stdin.readline()
print(attempt(lambda: log.write(b"x")), attempt(lambda: os.listdir("data")))
"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    mounted.unmount()
    out, _ = process.communicate("\n", timeout=10)
    assert out.split() == ["ENOTCONN", "ENOTCONN"]
    assert mounted.files() == {"log": b""}, "the folder below is an ordinary one"


# --------------------------------------------------------------------------- the same as a model


NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("create", "write", "truncate", "fsync", "rename", "unlink", "sync")),
        *[st.integers(0, 8)] * 3,
    ),
    max_size=30,
)


def never() -> NoReturn:
    raise AssertionError("the power was not to fail")


@settings(max_examples=50, deadline=None)
@given(steps=STEPS, seed=st.none() | st.integers(0, 9))
def test_it_forgets_what_the_simulated_disk_forgets(
    steps: list[tuple[str, int, int, int]], seed: int | None
) -> None:
    """A rename or a removal, a hole, a shorter or a longer file: undone to what was fsynced."""
    with tempfile.TemporaryDirectory() as name:
        root, folder, memory = Path(name) / "data", Path(name) / "faults", MemoryDisk()
        root.mkdir()
        files = Files(root, folder, never)
        for step in steps:
            _do(files, root, step)
            _do_same(memory, root, step)
        now = {path.name: path.read_bytes() for path in root.iterdir()}
        assert now == {p.name: bytes(i.data) for p, i in memory.contents().items()}
        files.journal.close()

        journal = DiskJournal(folder)
        image = load(root, journal)
        journal.close()
        lost = [disk.crash(None if seed is None else Random(seed)) for disk in (image, memory)]
        assert lost[0] == lost[1]
        assert {p: i.data for p, i in image.contents().items()} == {
            p: i.data for p, i in memory.contents().items()
        }


def _do(files: Files, root: Path, step: tuple[str, int, int, int]) -> None:
    operation, one, two, size = step
    name, other = NAMES[one % 3], NAMES[two % 3]
    here = {path.name for path in root.iterdir()}
    if operation == "sync":
        handle = files.open_folder(1)
        files.fsync_folder(handle)
        files.release(handle)
    elif operation == "create" and name not in here:
        files.release(files.create(1, name, 0o100644)[2])
    elif operation == "unlink" and name in here:
        files.unlink(1, name)
    elif operation == "rename" and name in here and name != other:
        files.rename(1, name, 1, other, 0)
    elif operation in ("write", "truncate", "fsync") and name in here:
        node, _ = files.lookup(1, name)
        handle = files.open(node, os.O_RDWR)
        if operation == "write":
            files.write(handle, two, memoryview(bytes([65 + one]) * size))
        elif operation == "truncate":
            files._truncate(node, files._open[handle].fd, two)
        else:
            files.fsync(handle)()
        files.release(handle)
        files.forget(node, 1)


def _do_same(disk: MemoryDisk, root: Path, step: tuple[str, int, int, int]) -> None:
    """The same; what the model has no word for, holes and longer files, by hand."""
    operation, one, two, size = step
    path, other = root / NAMES[one % 3], root / NAMES[two % 3]
    if operation == "sync":
        disk.fsync_dir(root)
    elif operation == "create" and path not in disk.sizes():
        disk.open(path, create=True)
    elif operation == "unlink" and path in disk.sizes():
        disk.unlink(path)
    elif operation == "rename" and path in disk.sizes() and path != other:
        disk.rename(path, other)
    elif operation in ("write", "truncate", "fsync") and path in disk.sizes():
        inode = disk.contents()[path]
        before = len(inode.data)
        if operation == "fsync":
            disk.open(path).fsync()
        elif operation == "truncate" and two > before:
            inode.undo.append((before, b"", before))
            inode.data += bytes(two - before)
        elif operation == "truncate":
            inode.undo.append((two, bytes(inode.data[two:]).rstrip(b"\0"), before))
            del inode.data[two:]
        elif two > before:
            inode.undo.append((before, b"", before))
            inode.data += bytes(two - before) + bytes([65 + one]) * size
        else:
            inode.change(two, bytes([65 + one]) * size)


def test_two_fsyncs_of_a_file_come_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written after the first began is not durable by it, whoever else waits."""
    (tmp_path / "data").mkdir()
    files = Files(tmp_path / "data", tmp_path / "faults", never)
    _, _, handle = files.create(1, "log", 0o644)
    files.write(handle, 0, memoryview(b"first"))
    entered, gate = list[int](), threading.Event()

    def fsync(fd: int) -> None:
        entered.append(files.journal.mark(fd))
        assert gate.wait(10)

    monkeypatch.setattr(os, "fsync", fsync)
    threads = [threading.Thread(target=files.fsync(handle)) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[1].join(0.1)
    assert entered == [1]
    files.write(handle, 5, memoryview(b"second"))
    gate.set()
    for thread in threads:
        thread.join(10)
    assert entered == [1, 1], "the second write is for the second of them"
    assert not files.journal.changes
    files.journal.close()


def test_where_nothing_can_be_mounted_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "DEVICE", tmp_path / "fuse")
    said = mounts.cannot_mount()
    assert said is not None
    assert f"[Errno {errno.ENOENT}]" in said
    assert "see krucible doctor" in said
