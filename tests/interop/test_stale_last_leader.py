"""``docs/findings.md``: another is taken for the last leader, since nobody cleared its name.

A real controller and two real brokers, which lose a message that was acknowledged. Should a newer
Apache Kafka do better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.metadata.features import ELR_VERSION
from tests.support.live.brokers import (
    CONTROLLER,
    end,
    kill,
    partition,
    send,
    servers,
    start,
    stop,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play
from workloads.elr import ELECTED, elect, set_minimum
from workloads.levels import set_level

pytestmark = [pytest.mark.slow, pytest.mark.long]
FIRST, SECOND, TOPIC = "n2", "n3", "t"
FIRST_ID, SECOND_ID, NOBODY = 2, 3, -1


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("toggled", [True, False], ids=("toggled", "control"))
def test_another_broker_is_elected_as_the_last_leader_and_a_message_is_lost(
    kafka: KafkaDist, release: str, tmp_path: Path, *, toggled: bool
) -> None:
    """The first broker leads, then the second, elected while the feature was off; both die."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        server = servers(scene, FIRST, SECOND)
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (FIRST_ID, SECOND_ID), deadline_s())
        await set_minimum(route, TOPIC, 1)
        await until(lambda: set(partition(scene, TOPIC).isr) == {FIRST_ID, SECOND_ID})
        await stop(scene, SECOND, SECOND_ID)
        await kill(scene, FIRST, FIRST_ID)
        state = partition(scene, TOPIC)
        assert (state.leader, state.last_known_leaders) == (NOBODY, (FIRST_ID,))
        if toggled:
            await set_level(route, ELR_VERSION, 0)
        await start(scene, SECOND, SECOND_ID)
        assert await elect(route, TOPIC) == ELECTED
        if toggled:
            await set_level(route, ELR_VERSION, 1)
        state = partition(scene, TOPIC)
        assert (state.leader, state.last_known_leaders) == (SECOND_ID, (FIRST_ID,) * toggled)
        assert await asyncio.to_thread(send, server[SECOND], TOPIC) == 0, "it leads alone"
        await kill(scene, SECOND, SECOND_ID)
        state = partition(scene, TOPIC)
        last = FIRST_ID if toggled else SECOND_ID
        assert (state.leader, state.last_known_leaders) == (NOBODY, (last,))
        await start(scene, FIRST, FIRST_ID)
        await start(scene, SECOND, SECOND_ID)
        await until(lambda: partition(scene, TOPIC).leader != NOBODY)
        route.close()
        assert partition(scene, TOPIC).leader == last
        told = await asyncio.to_thread(end, server[FIRST if toggled else SECOND], TOPIC)
        assert told == (0 if toggled else 1), "the message is there, where the last leader leads"

    play(tmp_path, main, with_brokers(release, 2), frozenset())
