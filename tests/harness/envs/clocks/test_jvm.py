"""JVMs are asked for their time: what they may answer, and that nothing is left of the asking."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from harness.agent import clocks as ssh_clocks
from harness.contracts.hosts import Clocks
from harness.envs.clocks import jvm as jvm_clocks
from harness.envs.clocks import jvm_attach
from harness.envs.clocks import traces as clock_traces
from harness.envs.clocks.jvm import JvmClocks, parse
from harness.envs.clocks.jvm_attach import AttachError, ask, is_up, socket_of
from harness.envs.clocks.library import defined, without_waits
from harness.envs.clocks.orders import find_faketime, no_fake_clocks
from harness.envs.clocks.traces import TRACES_ENTRY
from harness.envs.disks.heal import remove_clock_traces
from harness.envs.local.plugin import Local
from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.processes.procfs import ProcessId, identify
from tests.support.places import SUPPORT

FAKE = SUPPORT / "live" / "fake_jvm.py"
WALL_MS = round(datetime(2026, 11, 22, 8, 0, 0, 123_000, tzinfo=UTC).timestamp() * 1e3)


@contextlib.contextmanager
def jvm(folder: Path, how: str) -> Iterator[ProcessId]:
    """A process that speaks as a JVM, in its own folder."""
    home = folder / "home"
    home.mkdir()
    argv = [sys.executable, str(FAKE), how, str(folder)]
    with subprocess.Popen(argv, cwd=home, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            who = identify(process.pid)
            assert who is not None
            yield who
            assert list(home.iterdir()) == [], "what has it listen is taken away"
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_attach, "TEMPORARY", tmp_path)
    monkeypatch.setattr(jvm_clocks, "ASK_TIMEOUT_S", 2.0)


def test_a_jvm_that_is_asked_tells_both_clocks_as_of_one_moment(tmp_path: Path) -> None:
    async def main(process: ProcessId) -> None:
        clocks = JvmClocks()
        before_ms = time.monotonic_ns() // 1_000_000
        first = await clocks.read("n1", process)
        after_ms = time.monotonic_ns() // 1_000_000
        assert first == await clocks.read("n1", process), "told from the same zero"
        assert (first["wall_ms"], first["precision_ms"]) == (WALL_MS, 1)
        assert before_ms <= first["steady_ms"] <= after_ms

    with jvm(tmp_path, "tells") as process:
        asyncio.run(main(process))
    with pytest.raises(AttachError, match=r"cannot be asked|is gone|still starting"):
        asyncio.run(JvmClocks().read("n1", process))


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("starts", "is still starting"),
        ("deaf", "does not answer within 0.5 s"),
        ("silent", "does not answer within 0.5 s"),
        ("refuses", "refuses 'VM.uptime -date': '1.njava.lang.IllegalArgumentException"),
        ("floods", "answered more than 65536 bytes"),
        ("hangs-up", "refuses 'VM.uptime -date': ''"),
    ],
)
def test_one_that_does_not_tell_says_why_within_the_time_and_lives_on(
    tmp_path: Path, how: str, complaint: str
) -> None:
    with jvm(tmp_path, how) as process:
        assert is_up(process.pid) == (how != "starts")
        with pytest.raises(AttachError, match=complaint):
            asyncio.run(ask(process, "VM.uptime -date", timeout_s=0.5))
        assert identify(process.pid) == process


def test_what_is_no_socket_of_ours_is_not_spoken_to(tmp_path: Path) -> None:
    with jvm(tmp_path, "tells") as process:
        socket_of(process.pid).write_text("something else")
        with pytest.raises(AttachError, match="belongs to no JVM of this user"):
            asyncio.run(ask(process, "VM.uptime -date", timeout_s=0.5))


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("2026-11-22T09:00:00.123+0100: 12.345 s\n", (WALL_MS, 12_345)),
        ("2026-11-22T08:00:00.123+0000: 0.001 s\n", (WALL_MS, 1)),
        ("2026-11-22T08:00:00,123+0000: 3,010 s\n", (WALL_MS, 3_010)),
        ("1970-01-01T00:00:00.000-0000: 1.000 s\n", (0, 1_000)),
        ("12.345 s\n", None),
        ("2026-11-22T09:00:00+0100: 12.345 s\n", None),
        ("2026-11-22T09:00:00.123+0100: 12.345 s\nand more", None),
        ("2026-13-22T09:00:00.123+0100: 12.345 s\n", None),
        ("", None),
    ],
)
def test_what_a_jvm_says_is_read_or_refused(answer: str, read: tuple[int, int] | None) -> None:
    if read is not None:
        assert parse(answer) == read
        return
    with pytest.raises(AttachError, match="want a date and an uptime"):
        parse(answer)


def test_a_heal_removes_what_a_dead_process_has_left_and_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_traces, "SHARED", tmp_path)
    shared = (tmp_path / "faketime_shm_{}", tmp_path / "sem.faketime_sem_{}")
    home = tmp_path / "home"
    with jvm(tmp_path, "tells") as process:
        asyncio.run(ask(process, "VM.uptime -date", timeout_s=2.0))
        paths = [Path(str(path).format(process.pid)) for path in shared]
        paths += [socket_of(process.pid), home / f".attach_pid{process.pid}"]
        for path in paths:
            path.touch()
        what = {"node": "n1", "pid": process.pid, "start": process.start, "folder": str(home)}
        heal = remove_clock_traces
        assert heal("r", {"node": "n1", "folder": str(home)}) == "it never started"
        heal("r", {**what, "start": process.start - 1})
        assert all(path.exists() for path in paths), "its pid is somebody else's by now"
        others = [tmp_path / "faketime_shm_1", tmp_path / ".java_pid1"]
        for path in others:
            path.touch()
        for _ in range(2):
            assert heal("r", what) == "removed"
        assert not any(path.exists() for path in paths)
        assert all(path.exists() for path in others)


def test_an_ssh_host_forgets_the_clocks_of_a_run_that_are_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_clocks, "_SHARED", tmp_path)
    folder = tmp_path / "krucible-run"
    folder.mkdir()
    assert ssh_clocks.remove_clocks(str(folder)) == 0
    with jvm(tmp_path, "tells") as process:
        for path in (mine := [tmp_path / f"faketime_shm_{process.pid}", tmp_path / "other"]):
            path.touch()
        (tmp_path / f"sem.faketime_sem_{process.pid}").touch()
        ssh_clocks.note_clock(str(folder), process.pid)
        assert ssh_clocks.remove_clocks(str(folder)) == 0, "it lives"
    assert ssh_clocks.remove_clocks(str(folder)) == 2
    assert [path.exists() for path in mine] == [False, True]


# Not `time.sleep`: under libfaketime it was seen to fail with EINVAL.
WAITS = "import signal; signal.pause()"


@pytest.mark.skipif(no_fake_clocks() is not None, reason=str(no_fake_clocks()))
def test_a_killed_node_with_a_clock_of_its_own_leaves_no_shared_memory(tmp_path: Path) -> None:
    async def main() -> None:
        journal = Journal.open("traces", folder=tmp_path / "state")
        env = Local(tmp_path / "run", journal)
        env.expect({Clocks}, Random(1))
        await env.setup(["n1"])
        try:
            await env.start("n1", [sys.executable, "-c", WAITS], env={})
            pid = env.process("n1").pid
            assert pid is not None, (env.process("n1"), env.log_file("n1").read_text())
            page = Path(f"/dev/shm/faketime_shm_{pid}")
            async with asyncio.timeout(20):
                while not page.exists():  # noqa: ASYNC110 - tells nobody
                    await asyncio.sleep(0.01)
            entries = [entry.kind for entry in journal.open_entries()][-2:]
            assert entries == [TRACES_ENTRY, "process"], "the process goes first"
            await env.signal("n1", signal.SIGKILL)
            assert not page.exists()
        finally:
            await env.teardown()
            assert journal.open_entries() == ()
            journal.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["faketime_shm_{}", "sem.faketime_sem_{}"])
def test_what_the_dead_left_is_removed_before_a_process_may_get_their_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Libfaketime ends a process that finds a page, and makes none where it finds a semaphore."""
    with jvm(tmp_path, "tells") as process:
        dead = process.pid
        alive = tmp_path / name.format(os.getpid())
    others = [tmp_path / name.format("x"), tmp_path / f"somebody_elses_{dead}"]
    for path in (stale := tmp_path / name.format(dead), alive, *others):
        path.touch()
    monkeypatch.setattr(clock_traces, "SHARED", tmp_path)
    clock_traces.remove_stale()
    assert not stale.exists()
    assert all(path.exists() for path in (alive, *others))


def test_the_library_for_jvms_hides_waits_and_nothing_else(tmp_path: Path) -> None:
    found = find_faketime()
    if found is None:
        pytest.skip(str(no_fake_clocks()))
    copy = without_waits(Path(found), tmp_path / "copy.so")
    assert without_waits(Path(found), copy) == copy
    before, after = Path(found).read_bytes(), copy.read_bytes()
    changed = {at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    hidden = {at + 5 for at, name in defined(before) if name.startswith(b"pthread_cond_")}
    assert changed == hidden != set()
    assert {after[at] & 3 for at in changed} == {2}, "STV_HIDDEN"
    assert b"clock_gettime" in {name for _, name in defined(after)}


@pytest.mark.parametrize("library", [b"", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01" + bytes(80)])
def test_what_is_no_such_library_is_refused(tmp_path: Path, library: bytes) -> None:
    (tmp_path / "lib.so").write_bytes(library)
    with pytest.raises(EnvError, match=r"cannot make a copy of .*lib\.so for JVMs"):
        without_waits(tmp_path / "lib.so", tmp_path / "copy.so")
    assert not (tmp_path / "copy.so").exists()
