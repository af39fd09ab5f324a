"""Whether there is an Engine to test with, and clusters of echo nodes in containers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from harness.envs.docker.engine import Engine, EngineError
from harness.envs.docker.heal import RUN_LABEL
from harness.envs.docker.image import base_image
from harness.envs.docker.plugin import Docker
from harness.healing.journal import Journal
from tests.support.live.cluster import ECHO_NODE

REQUIRE_VARIABLE = "KRUCIBLE_REQUIRE_DOCKER"
ANSWER_TIMEOUT_S = 20.0


def need_engine() -> None:
    """Skip the test where there is no Engine or no base image; fail where there must be."""
    try:
        with contextlib.closing(Engine.connect()) as engine:
            base_image(engine)
    except EngineError as error:
        if os.environ.get(REQUIRE_VARIABLE):
            pytest.fail(f"{REQUIRE_VARIABLE} is set, but: {error}")
        pytest.skip(str(error))


def left_of(state: Path) -> list[str]:
    """Names of the containers and networks of runs whose journals are in ``state``."""
    with contextlib.closing(Engine.connect()) as engine:
        things = [*engine.containers(RUN_LABEL), *engine.networks(RUN_LABEL)]
    home = str(state.resolve())
    ours = [thing for thing in things if thing["Labels"]["krucible.state"] == home]
    return sorted(str((thing.get("Names") or [thing.get("Name")])[0]) for thing in ours)


@contextlib.asynccontextmanager
async def docker_nodes(
    folder: Path, nodes: Sequence[str] = ("n1", "n2"), *, run: str = "test-run"
) -> AsyncIterator[Docker]:
    """Echo nodes in containers, up and answering; everything is removed at the end."""
    journal = Journal.open(run, folder=folder / "state")
    environment = Docker(folder / run, journal)
    try:
        await environment.setup(nodes)
        await asyncio.gather(*(start(environment, node) for node in nodes))
        yield environment
    finally:
        await environment.teardown()
        journal.close()


async def start(environment: Docker, node: str) -> None:
    """Start an echo node and wait until it answers."""
    own, folder = environment.bind_address(node), environment.node_dir(node)
    script = str(shutil.copy(ECHO_NODE, folder))
    await environment.start(node, [sys.executable, script, own.host, str(own.port)], env={})
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        while not (await environment.ask(node, timeout_s=0.5))[0]:
            assert environment.process(node).state != "gone", environment.process(node)


async def kill(environment: Docker, node: str) -> None:
    """SIGKILL; returns when it is gone."""
    await environment.signal(node, signal.SIGKILL)
