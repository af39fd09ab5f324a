"""Nodes on ssh hosts that have no disk seam of ours: a file system of ours is put under them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from harness.agent import mounts
from harness.contracts.hosts import Disks, MountsDisks, Power
from harness.envs.ssh.files import archive
from harness.envs.ssh.hosts import HOSTS_VARIABLE
from harness.envs.ssh.plugin import Ssh
from harness.errors import EnvError
from harness.healing.journal import Journal
from tests.support.ssh.hosts import Hosts, sshd_hosts

REASON = mounts.cannot_mount()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
SOURCE = "krucible:ssh-disks:n1"
WRITER = [sys.executable, "-uc", "import time\nopen('data/log', 'w').write('x')\ntime.sleep(60)"]
FSYNCED = """
import os, signal
with open('data/log', 'w') as file:
    file.write('x')
    file.flush()
    os.fsync(file.fileno())
with open('data/more', 'w') as file:
    file.write('y')
signal.pause()
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd"), 1) as made:
        yield made


def play(hosts: Hosts, folder: Path, main: Callable[[Ssh], Awaitable[None]]) -> None:
    """Play on an ssh environment of one host, whose node is on a file system of ours."""

    async def run() -> None:
        journal = Journal.open("ssh-disks", folder=folder / "state")
        env = Ssh(folder / "run", journal)
        env.expect({Disks, Power}, Random(1))
        await env.setup(["n1"])
        assert env.why_not(MountsDisks) is None
        env.mount_disks()
        try:
            await main(env)
        finally:
            try:
                await env.teardown()
            finally:
                left = [*journal.open_entries(), *hosts.left(folder), *mounted()]
                journal.close()
        assert not left

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOSTS_VARIABLE, str(hosts.file(folder)))
        asyncio.run(run())


def mounted() -> list[int]:
    """List the processes that see the node's mount."""
    return list(mounts.users(SOURCE))


async def wrote(env: Ssh, name: str = "log") -> None:
    """Wait until the node has written a file."""
    async with asyncio.timeout(20):
        while not (env.node_dir("n1") / "data" / name).exists():
            await env.refresh("n1")


async def ended(env: Ssh) -> None:
    async with asyncio.timeout(20):
        while env.process("n1").pid is not None:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.01)


def test_it_is_there_for_the_node_alone_and_goes_with_it(hosts: Hosts, tmp_path: Path) -> None:
    async def main(env: Ssh) -> None:
        await env.start("n1", WRITER, env={})
        await wrote(env)
        pid = env.process("n1").pid
        assert pid in mounted()
        assert os.getpid() not in mounted()
        async with env._processes.frozen("n1"):
            states = {(Path("/proc") / str(p) / "stat").read_text().split()[2] for p in mounted()}
            assert states == {"T"}, "the node and its disk stand still"
        lost = await env.power.lose("n1", mid_write=False)
        assert lost["lost"] == {"log": 1}
        assert mounted() == []
        await env.start("n1", WRITER, env={})  # on another one
        await wrote(env)

    play(hosts, tmp_path, main)


def test_what_was_fsynced_outlives_a_loss_of_power(hosts: Hosts, tmp_path: Path) -> None:
    async def main(env: Ssh) -> None:
        await env.start("n1", [sys.executable, "-uc", FSYNCED], env={})
        await wrote(env, "more")
        lost = await env.power.lose("n1", mid_write=False)
        assert lost["lost"] == {"more": 1}
        assert (env.node_dir("n1") / "data/log").read_text() == "x"

    play(hosts, tmp_path, main)


def test_a_full_disk_refuses_what_the_node_writes(hosts: Hosts, tmp_path: Path) -> None:
    program = (
        "import os, time\nfd = os.open('data/log', os.O_CREAT | os.O_WRONLY)\n"
        "while True: os.write(fd, b'x'); time.sleep(.01)"
    )

    async def main(env: Ssh) -> None:
        await env.start("n1", [sys.executable, "-uc", program], env={})
        await wrote(env)
        await env.disks.fill("n1", full=True)
        await ended(env)
        assert (await env.disks.try_disk("n1"))["refused"] > 0
        await env.disks.fill("n1", full=False)
        assert "No space left on device" in env.log_file("n1").read_text()

    play(hosts, tmp_path, main)


def test_a_file_system_that_breaks_ends_the_node_and_is_told_at_the_end(
    hosts: Hosts, tmp_path: Path
) -> None:
    async def main(env: Ssh) -> None:
        await env.start("n1", WRITER, env={})
        await wrote(env)
        (server,) = set(mounted()) - {env.process("n1").pid}
        os.kill(server, signal.SIGKILL)
        await ended(env)

    with pytest.raises(EnvError, match=r"file system under n1 broke: .*killed by SIGKILL"):
        play(hosts, tmp_path, main)


def test_a_node_whose_file_system_cannot_be_mounted_says_why(hosts: Hosts, tmp_path: Path) -> None:
    async def main(env: Ssh) -> None:
        in_the_way = archive([("faults/files.log/x", b"")])  # of the server's log
        await env._places["n1"].remote.call("put", data=in_the_way, into="node")
        with pytest.raises(EnvError, match=r"files\.log"):
            await env.start("n1", WRITER, env={})
        assert env.process("n1").pid is None

    play(hosts, tmp_path, main)
