"""``docs/findings.md``: a deleted topic ends each controller, when a disk fails that it was on.

A real controller and two real brokers, one of them with two disks. Should a newer Apache Kafka do
better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.kafka.client import KafkaClient
from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.log.disk import FileDisk
from node.log.meta_properties import load_meta_properties, random_id, write_meta_properties
from tests.support.live.brokers import (
    CONTROLLER,
    kill,
    records,
    reigns,
    start,
    stop,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
OWNER, OWNER_ID = "n3", 3
TOPICS = ("t0", "t1", "t2", "t3")  # so many that some are on the second disk
SECOND = "second"
LOOKS_AT_DISKS = {"log.flush.offset.checkpoint.interval.ms": "1000"}
LASTS_S = 15.0  # several heartbeats
EPOCHS_MIN = 5  # in that time; there is nobody else to lead
FAILED = "existed in isrMembers, but not in the topics map"


def format_disk(first: Path, second: Path) -> None:
    """Make another disk of a broker."""
    second.mkdir()
    meta = load_meta_properties(FileDisk(), first)
    assert meta is not None
    another = replace(meta, directory_id=random_id(Random(1)))
    write_meta_properties(FileDisk(), second, another)


def placed(scene: LiveScene) -> int:
    """Count the replicas of which the controller knows on which disk they are."""
    changes = records(scene, "PartitionChangeRecord")
    return sum(each["directories"] is not None for each in changes)


def lost(scene: LiveScene) -> bool:
    """Tell whether the controller has written that a disk of the broker failed."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    return any(each["broker_id"] == OWNER_ID and each.get("log_dirs") for each in changes)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("is_down", [True, False], ids=("down", "control"))
def test_a_failed_disk_ends_each_controller_that_its_broker_tells(
    kafka: KafkaDist, release: str, tmp_path: Path, *, is_down: bool
) -> None:
    """A broker's topics are deleted, while it is down or not, and then one of its disks fails."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        second = scene.env.node_dir(OWNER) / SECOND
        await stop(scene, OWNER, OWNER_ID)
        format_disk(scene.env.node_dir(OWNER) / "data", second)
        node = scene.system._node[OWNER]
        disks = {"log.dirs": f"{node.settings['log.dirs']},{second}"}
        scene.system._node[OWNER] = replace(node, settings={**node.settings, **disks})
        await start(scene, OWNER, OWNER_ID)
        route = Route(scene.system.cluster(), CONTROLLER)
        topics = KafkaClient(scene.system.cluster(), CONTROLLER)
        for topic in TOPICS:
            await create_by_hand(route, topic, (OWNER_ID,), deadline_s())
        await until(lambda: placed(scene) == len(TOPICS))
        assert any((second / f"{topic}-0").is_dir() for topic in TOPICS)
        if is_down:
            await kill(scene, OWNER, OWNER_ID)
        for topic in TOPICS:
            await topics.delete(topic)
        if is_down:
            await start(scene, OWNER, OWNER_ID)
        await topics.close()
        route.close()
        led = reigns(scene)
        second.rename(second.with_name("gone"))
        if not is_down:
            await until(lambda: lost(scene))
            assert reigns(scene) == led
            return
        await until(lambda: FAILED in scene.printed(CONTROLLER))
        await asyncio.sleep(LASTS_S)
        assert not lost(scene)
        assert reigns(scene) >= led + EPOCHS_MIN

    spec = with_brokers(release, 2)
    play(tmp_path, main, replace(spec, settings={**spec.settings, **LOOKS_AT_DISKS}), frozenset())
