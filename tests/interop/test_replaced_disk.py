"""``docs/findings.md``: a broker leads with the empty disk that it was given, and all is lost.

A real controller and two real brokers. Should a newer Apache Kafka do better, this fails, and the
page is to be changed.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

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
LAST, OTHER, TOPIC = "n2", "n3", "t"
LAST_ID, OTHER_ID = 2, 3
RECOVERING, NO_CHANGE = 1, -1


def moves(scene: LiveScene) -> int:
    """Count the records that tell of another disk of a replica."""
    changes = records(scene, "PartitionChangeRecord")
    return sum(each["directories"] is not None for each in changes)


def elections(scene: LiveScene) -> list[dict[str, Any]]:
    """The records with which the broker of the empty disk was elected."""
    changes = records(scene, "PartitionChangeRecord")
    return [each for each in changes if each["leader"] == LAST_ID]


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("eligible", [True, False], ids=("elr", "no-elr"))
def test_who_has_an_empty_disk_is_elected_and_the_others_cut_what_they_have(
    kafka: KafkaDist, release: str, tmp_path: Path, *, eligible: bool
) -> None:
    """The last one in sync dies and gets a new disk; then another broker restarts."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        server = servers(scene, LAST)
        route = Route(scene.system.cluster(), CONTROLLER)
        if not eligible:
            await set_level(route, ELR_VERSION, 0)
        await create_by_hand(route, TOPIC, (LAST_ID, OTHER_ID), deadline_s())
        await set_minimum(route, TOPIC, 1)
        assert await asyncio.to_thread(send, server[LAST], TOPIC, 10) == 9
        await stop(scene, OTHER, OTHER_ID)  # it has these ten, and keeps them
        assert await asyncio.to_thread(send, server[LAST], TOPIC) == 10
        await kill(scene, LAST, LAST_ID)
        shutil.rmtree(scene.env.node_dir(LAST) / "data")
        scene.system.reformat(LAST)
        await start(scene, OTHER, OTHER_ID)
        await scene.system._launch(LAST)
        await until(lambda: moves(scene) > 0)
        await stop(scene, OTHER, OTHER_ID)
        await start(scene, OTHER, OTHER_ID)
        await until(lambda: bool(elections(scene)))
        assert elections(scene)[0]["leader_recovery_state"] == (
            RECOVERING if eligible else NO_CHANGE
        )
        assert await asyncio.to_thread(end, server[LAST], TOPIC) == 0, "with nothing"
        segment = scene.env.node_dir(OTHER) / "data" / f"{TOPIC}-0" / f"{0:020d}.log"
        await until(lambda: segment.stat().st_size == 0)
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())
