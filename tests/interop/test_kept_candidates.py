"""``docs/findings.md``: who was eligible in a deleted topic ends each controller.

A real controller and two real brokers. Should a newer Apache Kafka do better, this fails, and the
page is to be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.kafka.client import KafkaClient
from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import (
    CONTROLLER,
    is_fenced,
    records,
    reigns,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play
from workloads.elr import set_minimum

pytestmark = [pytest.mark.slow, pytest.mark.long]
DYING, TOPIC = "n3", "t"
STAYING_ID, DYING_ID = 2, 3
LASTS_S = 15.0  # several registrations
EPOCHS_MIN = 5  # in that time; there is nobody else to lead
FAILED = "existed in isrMembers, but not in the topics map"


def registrations(scene: LiveScene) -> int:
    """Count how often that broker has been registered."""
    registered = records(scene, "RegisterBrokerRecord")
    return sum(each["broker_id"] == DYING_ID for each in registered)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("changes", [True, False], ids=("changed", "control"))
def test_a_broker_that_died_ends_each_controller_that_it_asks(
    kafka: KafkaDist, release: str, tmp_path: Path, *, changes: bool
) -> None:
    """The minimum is set anew and the topic deleted, while one of its two replicas is down."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        topics = KafkaClient(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (STAYING_ID, DYING_ID), deadline_s())
        await set_minimum(route, TOPIC, 2)
        await scene.system.kill(DYING)
        await until(lambda: is_fenced(scene, DYING_ID))
        if changes:
            await set_minimum(route, TOPIC, 1)
        await topics.delete(TOPIC)
        await topics.close()
        route.close()
        before, led = registrations(scene), reigns(scene)
        await scene.system._launch(DYING)
        if not changes:
            await until(lambda: registrations(scene) > before)
            assert reigns(scene) == led
            return
        await until(lambda: FAILED in scene.printed(CONTROLLER))
        await asyncio.sleep(LASTS_S)
        assert registrations(scene) == before
        assert reigns(scene) >= led + EPOCHS_MIN

    play(tmp_path, main, with_brokers(release, 2), frozenset())
