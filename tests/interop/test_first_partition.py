"""``docs/findings.md``: who is eligible goes by how many replicas partition 0 has.

A real controller and real brokers. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.kafka.route import Route, deadline_s
from harness.kafka.topics import create_by_hand
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from tests.support.live.brokers import CONTROLLER, partition, start, stop, until, with_brokers
from tests.support.live.reassignments import TOPIC, grow, move
from tests.support.live.scene import LiveScene, play
from workloads.elr import set_minimum

pytestmark = [pytest.mark.slow, pytest.mark.long]
OTHER = 1  # the partition that is looked at
NOBODY = -1
STAYS_S = 5.0  # more than two sessions


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("smaller", [True, False], ids=("smaller", "control"))
def test_who_left_a_small_isr_does_not_lead_where_partition_0_has_fewer_replicas(
    kafka: KafkaDist, release: str, tmp_path: Path, *, smaller: bool
) -> None:
    """Two replicas, both needed. One stops, then the other; the first one comes back."""
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        route = Route(scene.system.cluster(), CONTROLLER)
        await create_by_hand(route, TOPIC, (2, 3), deadline_s())
        await set_minimum(route, TOPIC, 2)
        connection = await route.connect(CONTROLLER)
        assert await grow(connection, OTHER + 1) == [0]
        if smaller:
            assert await move(connection, 2) == 0
        await until(lambda: set(partition(scene, TOPIC, OTHER).isr) == {2, 3})
        await stop(scene, "n3", 3)
        state = partition(scene, TOPIC, OTHER)
        assert (state.isr, state.eligible_leaders) == ((2,), () if smaller else (3,))
        await stop(scene, "n2", 2)
        await start(scene, "n3", 3)
        if not smaller:
            await until(lambda: partition(scene, TOPIC, OTHER).leader == 3)
            return
        await asyncio.sleep(STAYS_S)
        state = partition(scene, TOPIC, OTHER)
        assert (state.leader, state.isr, state.eligible_leaders) == (NOBODY, (), (2,))
        route.close()

    play(tmp_path, main, with_brokers(release, 2), frozenset())
