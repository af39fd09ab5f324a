"""Apache Kafka in containers: the same faults, the same events, the same judgement."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.agent.mounts import cannot_mount, users
from harness.contracts.hosts import Clocks, Disks, Power
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from tests.support.commands.process import journals, run
from tests.support.commands.victim import kills, running
from tests.support.docker.cluster import left_of, need_engine
from tests.support.docker.kafka_image import kafka_image
from tests.support.kafka.told import judged_from_inside
from tests.support.live.brokers import records, until
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SMALL = {"env": "docker", "system": "kafka", "workload": "producer-ids", "observers": 0, "rate": 50}

NO_MOUNT = cannot_mount()
HOUR_MS = 3_600_000
MOMENT_MAX_S = 35.0  # of start-up, faults and recovery


@pytest.fixture(autouse=True)
def _engine(kafka: KafkaDist) -> None:
    assert kafka.archive.is_file()
    need_engine()


def test_kafka_in_containers_is_valid_under_kills_cuts_and_slow_links(tmp_path: Path) -> None:
    faults = "kill,partition-isolate-leader,slow-links"
    ran = run(tmp_path, **SMALL, nemesis=faults, time_limit=9, seed=5)
    judged_from_inside(ran)
    assert left_of(tmp_path / "state") == []
    assert journals(tmp_path / "state") == []


@pytest.mark.long
def test_an_image_of_kafkas_own_is_run_with_its_own_java_and_jars(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    before = volumes()
    with kafka_image(tmp_path / "image", kafka) as image:
        faults = "kill,partition-isolate-leader,power,disk-full,slow-links"
        setting = f"krucible.kafka.image={image}"
        ran = run(tmp_path, **SMALL, nemesis=faults, time_limit=20, seed=5, set=setting)
        judged_from_inside(ran)
        other = run(tmp_path, **SMALL, set=setting, kafka_version="4.4.0", time_limit=2)
        assert other.code == 255, other.explain()
        assert f"image {image}: there is no /opt/kafka/libs/kafka-raft-4.4.0.jar" in other.explain()
    assert left_of(tmp_path / "state") == []
    assert volumes() == before, "an image of Kafka's declares volumes"


def volumes() -> set[str]:
    """List the volumes that the Engine has."""
    listed = ["docker", "volume", "ls", "--quiet"]
    return set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.long
@pytest.mark.skipif(NO_MOUNT is not None, reason=str(NO_MOUNT))
@pytest.mark.parametrize("number", range(kills(1)))
def test_killed_at_any_moment_no_container_stays(tmp_path: Path, number: int) -> None:
    faults = "kill,pause,partition,slow-links,power,disk,clock"
    options = {**SMALL, "nemesis": faults, "time-limit": 20, "seed": number}
    with running(tmp_path, options) as victim:
        victim.kill_within(MOMENT_MAX_S, f"moment {number}")
        victim.assert_healed()
        assert left_of(victim.state) == []


@pytest.mark.skipif(NO_MOUNT is not None, reason=str(NO_MOUNT))
def test_its_disk_clock_and_power_are_in_our_hands_in_a_container_too(tmp_path: Path) -> None:
    """A file system of ours is under the JVM, in the container's own mount namespace."""
    settings = {"controller.quorum.append.linger.ms": "0"}
    spec = RunSpec(5, env="docker", system="kafka", workload="producer-ids", voters=1, observers=0)

    async def main(scene: LiveScene) -> None:
        source = f"krucible:{scene.journal.run}:n1"
        assert list(users(source)) == [scene.env.process("n1").pid], "nobody else sees it"
        # one that registers just when its clock goes ahead tries again when it is an hour later
        await until(lambda: bool(records(scene, "RegisterControllerRecord")))

        jump = await scene.inject("clock-jump", target="leader", ms=HOUR_MS)
        (seen,) = jump.saw("wall clock")
        assert (jump.injection.outcome, seen["seen"], seen["precision_ms"]) == (
            "installed",
            True,
            1,
        )
        await jump.heal()

        power = await scene.inject("power", target="leader", mid_write=True)
        (seen,) = power.saw("power loss")
        assert (power.injection.outcome, seen["gone"]) == ("installed", True)
        assert seen["lost"], "something was not fsynced"
        assert list(users(source)) == []
        await power.heal()

        full = await scene.inject("disk-full", target="leader")
        (seen,) = full.saw("disk")
        assert (full.injection.outcome, seen["errno"]) == ("installed", 28)
        await full.heal_alone()  # a JVM that has met it stops, now or in a while

    abilities = frozenset({Clocks, Disks, Power})
    play(tmp_path, main, replace(spec, settings=settings), abilities=abilities)
    assert left_of(tmp_path / "state") == []
