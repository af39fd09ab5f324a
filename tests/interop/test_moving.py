"""``docs/findings.md``: what is told of a reassignment, and what a topic gets that grows meanwhile.

Real controllers and brokers. Should a newer Apache Kafka do better, this fails, and the page is to
be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kio.schema.incremental_alter_configs.v1 import request as settings_
from kio.static.primitive import i8

from harness.kafka.route import Route, deadline_s, request
from harness.kafka.topics import create_by_hand
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from node.wire.network import Caller
from tests.support.live.brokers import (
    CONTROLLER,
    is_fenced,
    kill,
    records,
    until,
    with_brokers,
)
from tests.support.live.reassignments import TOPIC, grow, move, moving
from tests.support.live.scene import LiveScene, play
from workloads.elr import SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.long]
RELEASES = [DEFAULT, KNOWN[-1]]
ELECTED_S = 30.0
INVALID_REPLICA_ASSIGNMENT, TOPIC_TYPE = 39, 2
UNCLEAN = "unclean.leader.election.enable"


async def moved_to_who_is_down(scene: LiveScene, route: Route) -> Caller:
    """Make a topic with one replica, on broker 2, and move that to broker 3, which is down."""
    await create_by_hand(route, TOPIC, (2,), deadline_s())
    await kill(scene, "n3", 3)
    connection = await route.connect(CONTROLLER)
    assert await move(connection, 3) == 0
    return connection


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_that_are_added_while_a_topic_moves_get_too_many_replicas(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """One replica moves to a broker that is down; the new partition gets two (KAFKA-9038)."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        connection = await moved_to_who_is_down(scene, route)
        assert await grow(connection, 2) == [0]
        await until(lambda: len(records(scene, "PartitionRecord")) == 2)
        sizes = {p["partition_id"]: len(p["replicas"]) for p in records(scene, "PartitionRecord")}
        assert sizes == {0: 1, 1: 2}
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())


async def leader_of(scene: LiveScene, *but: str) -> str:
    """Wait until a controller leads that is none of these; give its name."""
    async with asyncio.timeout(ELECTED_S):
        while True:
            for node in ("n1", "n2", "n3"):
                if node not in but and await scene.look(node) is not None:
                    return node
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("release", RELEASES)
def test_a_reassignment_is_told_of_that_never_was(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """The leader is cut off, so that it commits nothing, and is asked for one, and what moves."""
    assert kafka.archive.is_file()
    settings = {**SETTINGS, VERSION: release}
    spec = RunSpec(7, system="kafka", workload="elr", voters=3, observers=2, settings=settings)

    async def main(scene: LiveScene) -> None:
        old = await leader_of(scene)
        route = Route(scene.system.cluster(), old)
        await create_by_hand(route, TOPIC, (4,), deadline_s())
        asking, listing = await route.connect(old), await Route(route.cluster, old).connect(old)
        cut = await scene.inject("partition-isolate-leader")
        asked = asyncio.create_task(move(asking, 5))
        async with asyncio.timeout(2.0):  # until it resigns, which takes 3 s
            while not (told := await moving(listing, by_name=True)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert told == [([5], [4])]
        assert not asked.done()
        new = await leader_of(scene, old)
        await cut.heal()
        there = Route(scene.system.cluster(), new)
        assert await moving(await there.connect(new), by_name=True) == []
        (outcome,) = await asyncio.gather(asked, return_exceptions=True)
        assert outcome != 0
        for each in (route, there):
            each.close()

    play(tmp_path, main, spec, frozenset())


@pytest.mark.parametrize("release", RELEASES)
def test_a_reassignment_cannot_be_given_up_though_somebody_may_lead(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """The last one in sync has gone, and is eligible (KIP-966).

    Where unclean elections are allowed it is in sync then, while it is fenced (KIP-841).
    """
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        connection = await moved_to_who_is_down(scene, route)
        await kill(scene, "n2", 2)
        gone = records(scene, "PartitionChangeRecord")[-1]
        assert (gone["isr"], gone["eligible_leader_replicas"]) == ([], [2])
        assert await move(connection) == INVALID_REPLICA_ASSIGNMENT
        change = settings_.AlterableConfig(name=UNCLEAN, config_operation=i8(0), value="true")
        resource = settings_.AlterConfigsResource(
            resource_type=i8(TOPIC_TYPE), resource_name=TOPIC, configs=(change,)
        )
        wanted = settings_.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        assert int((await request(connection, wanted)).responses[0].error_code) == 0
        assert await move(connection) == 0
        await until(lambda: records(scene, "PartitionChangeRecord")[-1] != gone)
        back = records(scene, "PartitionChangeRecord")[-1]
        assert (back["replicas"], back["isr"]) == ([2], [2])
        assert is_fenced(scene, 2)
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())
