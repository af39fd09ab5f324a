"""A cluster of echo nodes in a real local environment, and waiting for conditions in tests."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from harness.contracts.nemesis import Cluster
from harness.contracts.system import Role
from harness.envs.local.plugin import Local
from harness.errors import NodeStartError
from harness.healing.journal import Journal

ECHO_NODE = str(Path(__file__).with_name("echo_node.py"))


class EchoSystem:
    """A fake system over real processes: kills, pauses and 'leads' as a test wants."""

    name = "echo"

    def __init__(self, environment: Local, voters: int, observers: int) -> None:
        self.environment = environment
        self.nodes = tuple(f"n{i}" for i in range(1, voters + observers + 1))
        self.voters = self.nodes[:voters]
        self.observers = self.nodes[voters:]
        self.leads: str | None = self.voters[0]

    async def setup(self) -> None:
        await self.environment.setup(self.nodes)
        await asyncio.gather(*map(self.start, self.nodes))

    async def teardown(self) -> None:
        await self.environment.teardown()

    async def await_recovery(self, timeout_s: float) -> bool:
        return timeout_s > 0

    def collect(self) -> None: ...

    async def kill(self, node: str) -> None:
        await self.environment.signal(node, signal.SIGKILL)

    async def start(self, node: str) -> None:
        own = self.environment.bind_address(node)
        argv = [sys.executable, ECHO_NODE, own.host, str(own.port)]
        await self.environment.start(node, argv, env={})
        deadline = time.monotonic() + 20
        while not (await self.environment.net.probe("client", node)).passed:
            if time.monotonic() > deadline:
                raise NodeStartError(f"{node}: see {self.environment.log_file(node)}")

    async def pause(self, node: str) -> None:
        await self.environment.signal(node, signal.SIGSTOP)

    async def resume(self, node: str) -> None:
        await self.environment.signal(node, signal.SIGCONT)

    async def leader(self) -> str | None:
        return self.leads

    def roles(self) -> Mapping[str, Role]:
        return {}


@contextlib.asynccontextmanager
async def echo_cluster(
    folder: Path, *, voters: int = 3, observers: int = 0
) -> AsyncIterator[Cluster]:
    """Real echo nodes, up and answering; everything is stopped at the end."""
    journal = Journal.open("test-run", folder=folder / "state")
    environment = Local(folder / "run", journal)
    system = EchoSystem(environment, voters, observers)
    try:
        await system.setup()
        yield Cluster(system, environment)
    finally:
        await system.teardown()
        journal.close()


def environment_of(cluster: Cluster) -> Local:
    """The cluster's environment, with all that ``Local`` has."""
    environment: object = cluster.environment
    assert isinstance(environment, Local)
    return environment


async def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    """Wait until a condition holds; fails the test when it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)
