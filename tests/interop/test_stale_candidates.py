"""``docs/findings.md``: who was eligible before the feature was taken back is so afterwards.

A real controller and two real brokers, which lose a message that was acknowledged with acks=all.
Should a newer Apache Kafka do better, this fails, and the page is to be changed.
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
from workloads.levels import set_level

pytestmark = [pytest.mark.slow, pytest.mark.long]
LEADER, OTHER, TOPIC = "n2", "n3", "t"
LEADER_ID, OTHER_ID = 2, 3
SEEN_S = 1.0  # by when a broker goes by a setting


def is_led(scene: LiveScene) -> bool:
    """Tell whether the other broker was elected last."""
    changes = records(scene, "PartitionChangeRecord")
    return bool(changes and changes[-1]["leader"] == OTHER_ID)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("toggled", [True, False], ids=("toggled", "control"))
def test_a_message_is_lost_though_all_was_acknowledged_and_nobody_recovers(
    kafka: KafkaDist, release: str, tmp_path: Path, *, toggled: bool
) -> None:
    """The feature is taken back while a broker is eligible, and given again."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        server = servers(scene, LEADER, OTHER)
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (LEADER_ID, OTHER_ID), deadline_s())
        await set_minimum(route, TOPIC, 2)
        assert await asyncio.to_thread(send, server[LEADER], TOPIC) == 0
        await stop(scene, OTHER, OTHER_ID)  # it has all that was acknowledged
        if toggled:
            await set_level(route, ELR_VERSION, 0)
        await set_minimum(route, TOPIC, 1)
        if toggled:
            await set_level(route, ELR_VERSION, 1)
        await asyncio.sleep(SEEN_S)
        sent = await asyncio.to_thread(send, server[LEADER], TOPIC)
        assert sent == 1, "the leader alone suffices"
        await kill(scene, LEADER, LEADER_ID)
        await start(scene, OTHER, OTHER_ID)
        route.close()
        if not toggled:
            assert not is_led(scene), "it may lack the message, and waits for who has it"
            return
        await until(lambda: is_led(scene))
        recoveries = records(scene, "PartitionChangeRecord")
        assert all(each["leader_recovery_state"] == -1 for each in recoveries), "a clean election"
        assert await asyncio.to_thread(end, server[OTHER], TOPIC) == 1, "and the message is gone"

    play(tmp_path, main, with_brokers(release, 2), frozenset())
