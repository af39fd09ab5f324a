"""``docs/findings.md``: a broker that comes back without a disk leads what was on it.

A real controller and two real brokers, one of which has two disks. Should a newer Apache Kafka do
better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.errors import KafkaStorageError  # type: ignore[import-untyped]

from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import (
    CONTROLLER,
    is_fenced,
    partition,
    records,
    send,
    servers,
    start,
    stop,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play
from workloads.elr import set_minimum

pytestmark = [pytest.mark.slow, pytest.mark.long]
BACK, OTHER = "n2", "n3"
BACK_ID, OTHER_ID = 2, 3
META = "meta.properties"
FAILED = "Stopping serving logs in dir"


async def give_second_disk(scene: LiveScene) -> Path:
    """Restart the broker with another log directory, formatted; give its place."""
    node = scene.system._node[BACK]
    first = node.settings["log.dirs"]
    second = Path(first).with_name("second")
    settings = {**node.settings, "log.dirs": f"{first},{second}", "metadata.log.dir": first}
    await stop(scene, BACK, BACK_ID)
    second.mkdir()
    told = (Path(first) / META).read_text().splitlines(keepends=True)
    own_id = (line for line in told if not line.startswith("directory.id"))  # it draws one
    (second / META).write_text("".join(own_id))
    scene.system._node[BACK] = replace(node, settings=settings)
    await start(scene, BACK, BACK_ID)
    return second


async def topic_on(disk: Path, route: Route) -> str:
    """Create topics until the broker puts one on a disk; give its name."""
    for number in range(8):
        topic = f"t{number}"
        await create_by_hand(route, topic, (BACK_ID, OTHER_ID), deadline_s())
        places = [each / f"{topic}-0" for each in (disk, disk.with_name("data"))]
        await until(lambda places=places: any(each.is_dir() for each in places))  # type: ignore[misc]
        if places[0].is_dir():
            return topic
    raise AssertionError(f"the broker puts nothing on {disk}")


def working(scene: LiveScene) -> int:
    """Count the disks that the broker has, as the controller knows."""
    changes = records(scene, "BrokerRegistrationChangeRecord")
    told = [each.get("log_dirs") for each in changes if each["broker_id"] == BACK_ID]
    return len(([each for each in told if each] or [(0, 0)])[-1])


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("fenced", [True, False], ids=("fenced", "control"))
def test_who_is_let_in_and_tells_of_a_failed_disk_at_once_leads_what_was_on_it(
    kafka: KafkaDist, release: str, tmp_path: Path, *, fenced: bool
) -> None:
    """The disk fails while the broker is fenced and finds no controller; or, as a control, not."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        disk = await give_second_disk(scene)
        topic = await topic_on(disk, route)
        await set_minimum(route, topic, 2)
        await until(lambda: set(partition(scene, topic).isr) == {BACK_ID, OTHER_ID})
        server = servers(scene, BACK, OTHER)
        assert await asyncio.to_thread(send, server[OTHER], topic) == 0
        if fenced:
            await scene.system.pause(BACK)
            await until(lambda: is_fenced(scene, BACK_ID))
        await stop(scene, OTHER, OTHER_ID)
        assert OTHER_ID in partition(scene, topic).eligible_leaders
        route.close()
        if fenced:
            await scene.system._stop(CONTROLLER)
            await scene.system.resume(BACK)
        disk.rename(disk.with_name("gone"))
        disk.touch()  # a checkpoint of its logs cannot be written there any more
        await until(lambda: FAILED in scene.printed(BACK))
        if fenced:
            await scene.system._launch(CONTROLLER)
        await until(lambda: working(scene) == 1)
        await start(scene, OTHER, OTHER_ID)
        route = Route(scene.system.cluster(), CONTROLLER)
        await set_minimum(route, topic, 1)
        route.close()
        if fenced:
            with pytest.raises(KafkaStorageError):
                await asyncio.to_thread(send, server[OTHER], topic, retries=0)
            assert partition(scene, topic).leader == BACK_ID, "though its replica is gone"
        else:
            await until(lambda: partition(scene, topic).leader == OTHER_ID)
            assert await asyncio.to_thread(send, server[OTHER], topic) == 1

    play(tmp_path, main, with_brokers(release, 2), frozenset())
