"""``docs/findings.md``: a partition that has two epochs, and an ISR that nobody can mend.

A real controller and two real brokers. Should a newer Apache Kafka do better, this fails, and the
page is to be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kafka.errors import NotEnoughReplicasError  # type: ignore[import-untyped]

from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from node.metadata.features import ELR_VERSION
from tests.support.live.brokers import (
    CONTROLLER,
    kill,
    partition,
    reigns,
    send,
    servers,
    start,
    until,
    with_brokers,
)
from tests.support.live.scene import LiveScene, play
from workloads.elr import set_minimum
from workloads.levels import set_level

pytestmark = [pytest.mark.slow, pytest.mark.long]
FIRST, SECOND, TOPIC = "n2", "n3", "t"
FIRST_ID, SECOND_ID = 2, 3
REFUSALS = 100  # of a broker that asks every 50 ms: five seconds
ASKS_ELSEWHERE = "name=alter-partition] Client requested disconnect"  # it is told: no controller


def newest_snapshot(scene: LiveScene) -> int:
    """Tell where the newest snapshot of the controller ends; -1: it has none."""
    names = scene.env.node_dir(CONTROLLER).rglob("*-*.checkpoint")
    return max((int(name.name.partition("-")[0]) for name in names), default=-1)


def end_offset(scene: LiveScene) -> int:
    """Tell where the controller's log ends."""
    return int(scene.system.stored_log(CONTROLLER)[-1].last) + 1


def turned_away(scene: LiveScene) -> int:
    """Count how often the leader asked for an ISR and was told to look for another controller."""
    return scene.printed(FIRST).count(ASKS_ELSEWHERE)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("restarted", [True, False], ids=("restarted", "control"))
def test_an_isr_stays_small_for_good(
    kafka: KafkaDist, release: str, tmp_path: Path, *, restarted: bool
) -> None:
    """The controller begins with a snapshot, which it made while the feature was off."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (FIRST_ID, SECOND_ID), deadline_s())
        await set_minimum(route, TOPIC, 2)
        await until(lambda: set(partition(scene, TOPIC).isr) == {FIRST_ID, SECOND_ID})
        await kill(scene, SECOND, SECOND_ID)
        state = partition(scene, TOPIC)
        assert (state.isr, state.eligible_leaders) == ((FIRST_ID,), (SECOND_ID,))
        await set_level(route, ELR_VERSION, 0)
        off = end_offset(scene)
        await until(lambda: newest_snapshot(scene) >= off)
        if restarted:
            await scene.system._stop(CONTROLLER)
            await scene.system._launch(CONTROLLER)
            await until(lambda: reigns(scene) == 2)
        await set_level(route, ELR_VERSION, 1)
        await set_minimum(route, TOPIC, 1)
        await start(scene, SECOND, SECOND_ID)
        if restarted:
            asked = turned_away(scene)
            await until(lambda: turned_away(scene) > asked + REFUSALS)
        else:
            await until(lambda: len(partition(scene, TOPIC).isr) > 1)
        await set_minimum(route, TOPIC, 2)
        route.close()
        assert partition(scene, TOPIC).isr == ((FIRST_ID,) if restarted else (FIRST_ID, SECOND_ID))
        (server,) = servers(scene, FIRST).values()
        if restarted:
            with pytest.raises(NotEnoughReplicasError):
                await asyncio.to_thread(send, server, TOPIC, retries=0)
        else:
            assert await asyncio.to_thread(send, server, TOPIC) == 0

    spec = with_brokers(release, 2, metadata_log_max_record_bytes_between_snapshots="100")
    play(tmp_path, main, spec, frozenset())
