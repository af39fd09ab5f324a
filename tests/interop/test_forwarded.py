"""``docs/findings.md``: a broker makes a change again whose answer was lost, over a later one.

A real controller and a real broker. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.clients import Outcome
from harness.kafka.client import KafkaClient
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
SPEC = RunSpec(
    7,
    system="kafka",
    workload="register",
    voters=1,
    observers=1,
    settings={"krucible.clients": "brokers", "controller.socket.timeout.ms": "1000"},
)
CONTROLLER, BROKER = "n1", "n2"
WITHIN_S = 30


async def until_read(client: KafkaClient, value: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while await client.read("k") != value:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_forwarded_change_is_made_again_after_a_later_one(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        cluster = scene.system.cluster()
        near = KafkaClient(replace(cluster, forwarders=()), CONTROLLER)
        by_broker = KafkaClient(cluster, BROKER)
        await by_broker.write("k", 0)  # it knows its way to the controller now
        answers = [(CONTROLLER, BROKER)]
        await scene.env.net.cut(answers)
        asked_once = asyncio.create_task(by_broker.write("k", 1))
        await until_read(near, 1)
        with pytest.raises(Outcome, match="timed-out"):
            await asked_once
        await near.write("k", 2)
        await scene.env.net.heal(answers)
        await until_read(near, 1)
        await near.close()
        await by_broker.close()

    settings = {**SPEC.settings, VERSION: release}
    play(tmp_path, main, replace(SPEC, settings=settings), frozenset())
