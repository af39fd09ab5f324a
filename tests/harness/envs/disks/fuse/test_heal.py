"""A file system under a node goes when the node does, and when the harness dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.agent import mounts
from harness.contracts.hosts import Disks, Power
from harness.contracts.nemesis import Cluster
from harness.envs.disks.fuse.disk import entering
from harness.envs.local.plugin import Local
from harness.errors import EnvError, UsageError
from harness.faults.choice import misfit
from harness.healing.heal import heal_all, leftovers
from harness.healing.journal import RUN_VARIABLE, Journal
from harness.processes.procfs import environment_of, processes
from harness.registry import nemeses
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka.plugin import Kafka
from harness.systems.kafka.settings import check_settings
from tests.support.places import ROOT

REASON = mounts.cannot_mount()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
WRITER = [sys.executable, "-uc", "import time\nopen('data/log', 'w').write('x')\ntime.sleep(60)"]


def play(folder: Path, main: Callable[[Local, Journal], Awaitable[None]]) -> None:
    """A local environment whose nodes are on file systems of ours."""

    async def run() -> None:
        journal = Journal.open("fuse-heal", folder=folder / "state")
        env = Local(folder / "run", journal)
        env.expect({Disks, Power}, Random(1))
        env.mount_disks()
        await env.setup(["n1"])
        try:
            await main(env, journal)
        finally:
            try:
                await env.teardown()
            finally:
                left = journal.open_entries()
                journal.close()
        assert not left

    asyncio.run(run())


async def wrote(env: Local) -> None:
    """Wait until the node has."""
    async with asyncio.timeout(20):
        while not (env.node_dir("n1") / "data/log").exists():  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.01)


def open_kinds(journal: Journal) -> list[str]:
    ours = ("relay", "watchdog")
    return sorted(e.kind for e in journal.open_entries() if e.what.get("node") not in ours)


def mounted(run: str) -> list[int]:
    """The processes that see a mount of a run."""
    return list(mounts.users(f"krucible:{run}:n1"))


def test_it_is_there_for_the_node_alone_and_goes_with_it(tmp_path: Path) -> None:
    async def main(env: Local, journal: Journal) -> None:
        await env.start("n1", WRITER, env={})
        await wrote(env)
        pid = env.process("n1").pid
        assert pid is not None
        assert pid in mounted("fuse-heal")
        assert os.getpid() not in mounted("fuse-heal")
        assert open_kinds(journal) == ["mount", "process", "process"]
        async with env._processes.frozen("n1"):
            assert env.process("n1").state == "T"
        lost = await env.power.lose("n1", mid_write=False)
        assert set(lost["lost"]) <= {"log"}
        assert (mounted("fuse-heal"), open_kinds(journal)) == ([], [])
        await env.start("n1", WRITER, env={})  # on another one
        await wrote(env)

    play(tmp_path, main)


FSYNC = [
    sys.executable,
    "-uc",
    (
        "import os, signal\nfd = os.open('data/log', os.O_CREAT | os.O_WRONLY)\n"
        "os.write(fd, b'x')\nopen('asked', 'w').close()\n"
        "os.fsync(fd)\nopen('answered', 'w').close()\nsignal.pause()"
    ),
]


def test_an_fsync_under_way_when_the_power_fails_has_not_been_done(tmp_path: Path) -> None:
    """The end of a process waits for one; so what was told before its flush could never be lost."""

    async def main(env: Local, _: Journal) -> None:
        folder = env.node_dir("n1")
        folder.mkdir(parents=True, exist_ok=True)
        await env.disks.slow_fsync("n1", 60_000)
        await env.start("n1", FSYNC, env={})
        async with asyncio.timeout(20):
            while (await env.disks.try_disk("n1"))["slowed"] == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        lost = await env.power.lose("n1", mid_write=False)
        await env.disks.slow_fsync("n1", 0)
        assert not (folder / "answered").exists()
        assert lost["lost"] == {"log": 1}

    play(tmp_path, main)


def test_a_file_system_that_breaks_ends_the_node_and_is_told_at_the_end(tmp_path: Path) -> None:
    async def main(env: Local, journal: Journal) -> None:
        await env.start("n1", WRITER, env={})
        await wrote(env)
        (server,) = set(mounted("fuse-heal")) - {env.process("n1").pid}
        os.kill(server, signal.SIGKILL)
        async with asyncio.timeout(10):
            while open_kinds(journal):  # noqa: ASYNC110 - tells nobody
                await asyncio.sleep(0.01)
        assert env.process("n1").state == "gone"

    with pytest.raises(EnvError, match=r"file system under n1 broke: .*killed by SIGKILL"):
        play(tmp_path, main)


def test_a_node_that_cannot_be_started_leaves_no_mount(tmp_path: Path) -> None:
    async def main(env: Local, journal: Journal) -> None:
        (env.node_dir("n1") / "faults").write_text("in the way of a folder")
        with pytest.raises((EnvError, FileExistsError)):
            await env.start("n1", WRITER, env={})
        assert (mounted("fuse-heal"), open_kinds(journal)) == ([], [])

    play(tmp_path, main)


def test_faults_of_kafkas_disks_hang_on_a_mount_and_say_so_where_it_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RunSpec(1, system="kafka", workload="producer-ids", voters=3, observers=0)
    journal = Journal.open("skips", folder=tmp_path / "state")
    env = Local(tmp_path / "run", journal)
    cluster = Cluster(Kafka(spec, env, RunDir(tmp_path)), env)
    faults = [nemeses.get(name)() for name in ("power", "disk-full", "disk-bit-flip")]
    assert [misfit(fault, spec) for fault in faults] == [None] * 3
    assert [fault.available(cluster) for fault in faults] == [None] * 3

    monkeypatch.setattr(mounts, "DEVICE", tmp_path / "fuse")
    for fault in faults:
        for reason in (misfit(fault, spec), fault.available(cluster)):
            assert reason is not None
            assert reason.startswith("no file system of ours can be mounted: [Errno 2]")
    env.expect({Disks, Power}, Random(1))
    env.mount_disks()
    assert not env._mounts, "and nodes start without"
    assert misfit(faults[0], replace(spec, env="ssh")) is None, "its hosts are asked"
    journal.close()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"krucible.fsync": "no"}, "krucible.fsync=no: want true or false"),
        ({"krucible.mutant": "x"}, "Apache Kafka has no such setting"),
        ({"krucible.fsync": "false", "krucible.quorum": "dynamic"}, None),
    ],
)
def test_settings_of_kafkas_disks(settings: dict[str, str], complaint: str | None) -> None:
    if complaint is None:
        check_settings(settings)
        return
    with pytest.raises(UsageError, match=complaint):
        check_settings(settings)


HARNESS = """
import asyncio, sys
from pathlib import Path
from tests.harness.envs.disks.fuse import test_heal as t
async def main(env, journal):
    await env.start("n1", t.WRITER, env={})
    await t.wrote(env)
    print(env.process("n1").pid, flush=True)
    await asyncio.sleep(60)
t.play(Path(sys.argv[1]), main)
"""


def test_when_all_is_killed_a_heal_leaves_no_mount_and_no_process(tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    argv = [sys.executable, "-c", HARNESS, str(tmp_path)]
    harness = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=here)
    assert harness.stdout is not None
    node = int(harness.stdout.readline())
    task = mounts.holder(node, "krucible:fuse-heal:n1")
    assert task is not None
    # somebody who has a look in there; nothing of ours, so it survives
    guest = subprocess.Popen(entering(node, task, ["sleep", "60"]), cwd=tmp_path)
    try:
        until = time.monotonic() + 10
        while mounts.holder(guest.pid, "krucible:fuse-heal:n1") is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        others = [
            pid
            for pid in processes()
            if environment_of(pid).get(RUN_VARIABLE) == "fuse-heal" and pid not in mounted_by(node)
        ]
        for pid in (*others, harness.pid):  # the watchdog would heal for it
            os.kill(pid, signal.SIGKILL)
        harness.wait()
        assert "mount" in {item.kind for item in leftovers(tmp_path / "state")}

        healed = heal_all(tmp_path / "state")
        assert all(item.done for item in healed), healed
        assert mounted("fuse-heal") == []
        assert guest.poll() is None
        assert [p for p in processes() if environment_of(p).get(RUN_VARIABLE) == "fuse-heal"] == []
        assert leftovers(tmp_path / "state") == []
    finally:
        guest.kill()
        guest.wait()
        harness.kill()
        harness.wait()
        harness.stdout.close()


def mounted_by(node: int) -> set[int]:
    """The node, and the server of its file system."""
    return {node, *mounted("fuse-heal")}
