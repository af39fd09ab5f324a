"""``docs/findings.md``: a change of min.insync.replicas leaves a partition alone for ever.

A real controller and a real broker. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from harness.contracts.clients import Outcome
from harness.kafka.route import Route, deadline_s, request
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.metadata.features import ELR_VERSION
from tests.support.live.brokers import (
    CONTROLLER,
    WITHIN_S,
    is_fenced,
    partition,
    start,
    stop,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play
from workloads.elr import set_minimum
from workloads.levels import set_level

pytestmark = [pytest.mark.slow, pytest.mark.long]
BROKER, BROKER_ID, TOPIC = "n2", 2, "t"
OTHER, OTHER_ID = "n3", 3
NOBODY = -1
STAYS_S = 5.0  # more than two sessions


async def leader_of(scene: LiveScene) -> int | None:
    """Tell which broker leads the partition, by the word of one; None: it says nothing."""
    route = Route(scene.system.cluster(), BROKER)
    question = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(TOPIC)),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    try:
        (topic,) = (await request(await route.connect(BROKER), question)).topics
        return int(topic.partitions[0].leader_id)
    except Outcome:
        return None
    finally:
        route.close()


async def until_it_names(scene: LiveScene, *leaders: int) -> None:
    """Wait until the broker names one of these as the leader."""
    async with asyncio.timeout(WITHIN_S):
        while await leader_of(scene) not in leaders:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("changes", [True, False], ids=("changed", "control"))
def test_a_broker_that_comes_back_leads_no_more_once_the_minimum_was_set(
    kafka: KafkaDist, release: str, tmp_path: Path, *, changes: bool
) -> None:
    """The minimum is set to what it was, while the only replica is down."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (BROKER_ID,), deadline_s())
        await until_it_names(scene, BROKER_ID)
        await scene.system.kill(BROKER)
        await until(lambda: is_fenced(scene, BROKER_ID))
        if changes:
            await set_minimum(route, None, 1)
        route.close()
        await scene.system.start(BROKER)
        await until_it_names(scene, NOBODY, BROKER_ID)
        if not changes:
            await until_it_names(scene, BROKER_ID)
            return
        await asyncio.sleep(STAYS_S)
        assert await leader_of(scene) == NOBODY
        left = partition(scene, TOPIC)
        assert (left.isr, left.eligible_leaders, left.last_known_leaders) == ((), (), ())

    play(tmp_path, main, with_brokers(release, 1), frozenset())


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("switched_off", [True, False], ids=("off", "control"))
def test_a_broker_that_comes_back_leads_no_more_once_eligible_leaders_are_switched_off(
    kafka: KafkaDist, release: str, tmp_path: Path, *, switched_off: bool
) -> None:
    """It stopped in good order and alone has everything; another one comes back before it."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (BROKER_ID, OTHER_ID), deadline_s())
        await set_minimum(route, TOPIC, 1)
        await until_it_names(scene, BROKER_ID)
        await stop(scene, OTHER, OTHER_ID)
        await stop(scene, BROKER, BROKER_ID)
        assert (partition(scene, TOPIC).isr, partition(scene, TOPIC).eligible_leaders) == (
            (),
            (BROKER_ID,),
        )
        if switched_off:
            await set_level(route, ELR_VERSION, 0)
        route.close()
        await start(scene, OTHER, OTHER_ID)
        await start(scene, BROKER, BROKER_ID)
        if not switched_off:
            await until_it_names(scene, BROKER_ID)
            return
        await until_it_names(scene, NOBODY)
        await asyncio.sleep(STAYS_S)
        assert await leader_of(scene) == NOBODY

    play(tmp_path, main, with_brokers(release, 2), frozenset())
