"""``docs/findings.md``: an error while a log is recovered empties it.

A real controller on a disk that is full, and a real broker that may not open enough files. Should a
newer Apache Kafka do better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from harness.contracts.hosts import Disks
from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import (
    CONTROLLER,
    end,
    kill,
    records,
    send,
    servers,
    start,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
BROKER, BROKER_ID = "n2", 2
IN_SCALA = "3.9.2"  # the last release whose loader of logs was written in Scala
RELEASES = [(IN_SCALA, False), (DEFAULT, True), (KNOWN[-1], True)]
TOPICS = tuple(f"t{n}" for n in range(20))
EMPTIES = "Found invalid offset during recovery. Deleting the corrupt segment"


async def create_topics(scene: LiveScene) -> None:
    """Create all topics, each with one replica."""
    route = Route(scene.system.cluster(), CONTROLLER)
    for topic in TOPICS:
        await create_by_hand(route, topic, (BROKER_ID,), deadline_s())
    route.close()


def open_files(scene: LiveScene, node: str) -> int:
    """Count the files that a node's process has open."""
    return len(list(Path(f"/proc/{scene.env.process(node).pid}/fd").iterdir()))


async def ended(scene: LiveScene, node: str) -> None:
    """Wait until a node's process has ended by itself."""
    await until(lambda: not scene.system._runs(node))


@pytest.mark.parametrize(("release", "loses"), RELEASES)
def test_a_controller_whose_disk_is_full(
    kafka: KafkaDist, release: str, tmp_path: Path, *, loses: bool
) -> None:
    """Topics are created, the controller is killed, and its disk is full when it starts."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        await create_topics(scene)
        assert len(records(scene, "TopicRecord")) == len(TOPICS)
        await scene.env.disks.fill(CONTROLLER, full=True)
        await scene.system.kill(CONTROLLER)
        await scene.system._launch(CONTROLLER)
        await ended(scene, CONTROLLER)
        await scene.env.disks.fill(CONTROLLER, full=False)
        await scene.system.start(CONTROLLER)
        assert (EMPTIES in scene.printed(CONTROLLER)) == loses
        assert len(records(scene, "TopicRecord")) == (0 if loses else len(TOPICS))

    play(tmp_path, main, with_brokers(release, 1), frozenset({Disks}))


@pytest.mark.parametrize(("release", "loses"), RELEASES)
def test_a_broker_that_may_not_open_enough_files(
    kafka: KafkaDist, release: str, tmp_path: Path, *, loses: bool
) -> None:
    """Messages are acknowledged, the broker is killed, and may open fewer files when it starts."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        await create_topics(scene)
        server = servers(scene, BROKER)[BROKER]
        for topic in TOPICS:
            assert await asyncio.to_thread(send, server, topic) == 0
        allowed = open_files(scene, BROKER) - len(TOPICS) // 2
        await kill(scene, BROKER, BROKER_ID)
        await scene.system._launch(BROKER)
        pid = scene.env.process(BROKER).pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, allowed))
        await ended(scene, BROKER)
        await start(scene, BROKER, BROKER_ID)
        ends = [await asyncio.to_thread(end, server, topic) for topic in TOPICS]
        assert (EMPTIES in scene.printed(BROKER)) == loses
        assert (0 in ends) == loses
        assert set(ends) <= {0, 1}

    play(tmp_path, main, with_brokers(release, 1), frozenset())
