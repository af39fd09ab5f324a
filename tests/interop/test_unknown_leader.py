"""``docs/findings.md``: who does not know where the leader is ends when it hears from it.

Real controllers and a real broker. Should a newer Apache Kafka do better, this fails, and the page
is to be changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.hosts import Disks, Power
from harness.errors import NodeStartError
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.live.brokers import records, until, with_brokers
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
BROKER, BROKER_ID = "n2", 2
ENDS = "Expected to be Follower, but the current state is UnattachedState"
TIMES = 3
ENDS_TOO = "Unknown leader endpoints"


def registered(scene: LiveScene) -> int:
    """Count how often the broker has registered."""
    return sum(each["broker_id"] == BROKER_ID for each in records(scene, "RegisterBrokerRecord"))


def ended_epoch(scene: LiveScene, node: str) -> bool:
    """Tell whether a node was told that an epoch is over."""
    return any(e["api"] == "EndQuorumEpoch" for e in scene.events("rpc_ok", node))


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


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
@pytest.mark.parametrize("quorum", ["dynamic", "static"])
def test_a_controller_with_an_empty_disk_ends_when_a_leader_of_before_starts(
    kafka: KafkaDist, release: str, quorum: str, tmp_path: Path
) -> None:
    """All controllers are killed; one gets an empty disk, and starts before the former leader.

    Where the properties of all nodes name the voters, it knows them all the same, and lives on.
    """
    assert kafka.archive.is_file()
    spec = RunSpec(
        7,
        system="kafka",
        workload="producer-ids",
        voters=3,
        observers=0,
        settings={"krucible.quorum": quorum, VERSION: release},
    )

    async def main(scene: LiveScene) -> None:
        leader = await scene.leader()
        empty = next(node for node in scene.system.voters if node != leader)
        for node in scene.system.voters:
            await scene.system.kill(node)
        await scene.env.disks.wipe(empty, keep_id=quorum == "static")
        if quorum == "dynamic":
            scene.system.reformat(empty)
        await scene.system.start(empty)
        await scene.system.start(leader)
        if quorum == "static":
            await until(lambda: scene.system._runs(leader) and ended_epoch(scene, empty))
            assert scene.system._runs(empty)
            return
        await until(lambda: not scene.system._runs(empty))
        assert ENDS_TOO in scene.printed(empty)
        await scene.system.start(empty)

    play(tmp_path, main, spec, frozenset({Disks}))
