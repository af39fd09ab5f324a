"""``docs/findings.md``: who knows a leader, and not where it is, ends when it hears from it.

A real controller and a real broker. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.hosts import Power
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from harness.systems.nodes.processes import NodeStartError
from tests.support.live.brokers import records, until, with_brokers
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
BROKER, BROKER_ID = "n2", 2
ENDS = "Expected to be Follower, but the current state is UnattachedState"
TIMES = 3


def registered(scene: LiveScene) -> int:
    """Count how often the broker has registered."""
    return sum(each["broker_id"] == BROKER_ID for each in records(scene, "RegisterBrokerRecord"))


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("quorum", ["dynamic", "static"])
def test_a_new_broker_whose_host_loses_its_power_cannot_start(
    kafka: KafkaDist, release: str, quorum: str, tmp_path: Path
) -> None:
    """Of what it had fetched nothing was fsynced; that it follows the controller was.

    Where the properties of all nodes name the voters, it knows them all the same, and starts.
    """
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        await until(lambda: registered(scene) == 1)
        await scene.env.power.lose(BROKER, mid_write=False, clean=True)
        if quorum == "static":
            await scene.system.start(BROKER)
            await until(lambda: registered(scene) == 2)
            assert ENDS not in scene.printed(BROKER)
            return
        for number in range(1, TIMES + 1):
            with pytest.raises(NodeStartError):
                await scene.system.start(BROKER)
            assert scene.printed(BROKER).count(ENDS) == number
        assert registered(scene) == 1

    spec = with_brokers(release, 1)
    settings = {**spec.settings, "krucible.quorum": quorum}
    play(tmp_path, main, replace(spec, settings=settings), frozenset({Power}))
