"""``docs/findings.md``: who was eligible in a deleted topic ends each controller.

A real controller and two real brokers. Should a newer Apache Kafka do better, this fails, and the
page is to be changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kafka.client import KafkaClient
from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.live.scene import LiveScene, play
from workloads.elr import SETTINGS, set_minimum

pytestmark = [pytest.mark.slow, pytest.mark.long]
CONTROLLER, DYING, TOPIC = "n1", "n3", "t"
STAYING_ID, DYING_ID = 2, 3
WITHIN_S = 40.0  # the start of a JVM, and a session
LASTS_S = 15.0  # several registrations
EPOCHS_MIN = 5  # in that time; there is nobody else to lead
FAILED = "existed in isrMembers, but not in the topics map"


async def until(is_so: Callable[[], bool]) -> None:
    """Look again and again until something is so."""
    async with asyncio.timeout(WITHIN_S):
        while not is_so():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.2)


def records(scene: LiveScene, kind: str) -> list[dict[str, Any]]:
    """The fields of the controller's records of a kind."""
    batches = scene.system.stored_log(CONTROLLER)
    return [dict(r["fields"]) for batch in batches for r in batch.records if r["type"] == kind]


def is_fenced(scene: LiveScene) -> bool:
    """Tell whether the broker that was killed is fenced."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    return any(each["broker_id"] == DYING_ID and each["fenced"] == 1 for each in changes)


def registrations(scene: LiveScene) -> int:
    """Count how often that broker has been registered."""
    registered = records(scene, "RegisterBrokerRecord")
    return sum(each["broker_id"] == DYING_ID for each in registered)


def reigns(scene: LiveScene) -> int:
    """Count the leaders that the log has seen."""
    return len(records(scene, "LeaderChange"))


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("changes", [True, False], ids=("changed", "control"))
def test_a_broker_that_died_ends_each_controller_that_it_asks(
    kafka: KafkaDist, release: str, tmp_path: Path, *, changes: bool
) -> None:
    """The minimum is set anew and the topic deleted, while one of its two replicas is down."""
    assert kafka.archive.is_file()
    spec = RunSpec(
        7,
        system="kafka",
        workload="elr",
        voters=1,
        observers=2,
        settings={**SETTINGS, VERSION: release},
    )

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        topics = KafkaClient(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (STAYING_ID, DYING_ID), deadline_s())
        await set_minimum(route, TOPIC, 2)
        await scene.system.kill(DYING)
        await until(lambda: is_fenced(scene))
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

    play(tmp_path, main, spec, frozenset())
