"""Disks, power and clocks of nodes in containers: what each fault does, and that it ends."""

from __future__ import annotations

import errno
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.hosts import Clocks, Disks, Power
from harness.contracts.nemesis import Fault
from harness.envs.docker import image as docker_image
from harness.registry import nemeses
from harness.sessions.live import execute, prepare
from harness.store.folder import Store
from harness.verdict import Valid
from tests.support.docker.cluster import left_of, need_engine
from tests.support.live.moves import move_there_and_back
from tests.support.live.scene import SPEC, LiveScene, play

pytestmark = [pytest.mark.docker, pytest.mark.slow]
DOCKER = replace(SPEC, env="docker", settings={"metadata.max.idle.interval.ms": "50"})
DYNAMIC = {**DOCKER.settings, "krucible.quorum": "dynamic"}
ALL = frozenset({Disks, Power, Clocks})
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine()


def test_disks_power_and_clocks_of_containers_fail_and_are_well_after_the_heal(
    tmp_path: Path,
) -> None:
    async def main(scene: LiveScene) -> None:
        await _full_disk(scene)
        await _slow_disk(scene)
        await _damage(scene)
        await _power(scene)
        await _jump(scene)
        await _rate(scene)
        await _strobe(scene)

    play(tmp_path, main, replace(DOCKER, settings=DYNAMIC), ALL)
    assert left_of(tmp_path / "state") == []


async def _full_disk(scene: LiveScene) -> None:
    full = await scene.inject("disk-full", target="leader")
    (seen,) = full.saw("disk")
    node = seen["node"]
    assert seen["errno"] == errno.ENOSPC
    assert scene.open_entries("disk") == [node]
    healed = await full.heal()
    assert healed["restarted"] == [node]
    assert healed["met"][node] > 0, "the process in the container met it"
    assert "[Errno 28] No space left on device" in scene.printed(node)
    assert (await scene.env.disks.try_disk(node))["errno"] is None


async def _slow_disk(scene: LiveScene) -> None:
    slow = await scene.inject("disk-slow-fsync", target="leader", ms=50)
    (seen,) = slow.saw("disk")
    assert seen["met"] > 0
    healed = await slow.heal()
    now = await scene.env.disks.try_disk(seen["node"])
    assert now["slowed"] == healed["disks"][seen["node"]]["slowed"]


async def _damage(scene: LiveScene) -> None:
    fault = await scene.inject("disk-bit-flip", target="follower")
    (seen,) = fault.saw("damage")
    assert seen["readable_end"] < seen["log_end"]
    assert (await fault.heal())["log_end"] >= seen["log_end"]
    empty = await scene.inject("disk-wipe-keep-id", target="follower")
    (seen,) = empty.saw("damage")
    assert seen["readable_end"] == 0
    assert (await empty.heal())["log_end"] >= seen["log_end"]
    wiped = await scene.inject("disk-wipe", target="follower")
    (seen,) = wiped.saw("damage")
    assert (await wiped.heal())["voters"][seen["node"]] == seen["directory"]


async def _power(scene: LiveScene) -> None:
    committed = _last_of_a_majority(scene)
    power = await scene.inject("power", target="all", mid_write=True)
    seen = power.saw("power loss")
    assert {e["node"] for e in seen} == set(scene.system.nodes)
    assert all(e["gone"] for e in seen)
    assert any(e["torn_write"] for e in seen), "also the first process of a container ends"
    assert _last_of_a_majority(scene) >= committed, "what was fsynced is there"
    assert len((await power.heal())["restarted"]) == 3


async def _jump(scene: LiveScene) -> None:
    fault = await scene.inject("clock-jump", target="leader", ms=-HOUR_MS)
    (seen,) = fault.saw("wall clock")
    node = seen["node"]
    assert (fault.injection.outcome, seen["seen"]) == ("installed", True)
    assert scene.open_entries("clock") == [node]
    await scene.system.kill(node)
    await scene.system.start(node)
    assert abs(await _off_ms(scene, node) + HOUR_MS) < 1_000, "it outlives the process"
    others = [n for n in scene.system.nodes if n != node]
    assert max([abs(await _off_ms(scene, n)) for n in others]) < 1_000
    await fault.heal()
    assert abs(await _off_ms(scene, node)) < 1_000
    assert scene.open_entries("clock") == []


async def _rate(scene: LiveScene) -> None:
    fault = await scene.inject("clock-rate", target="follower", ppm=2_000_000)
    (seen,) = fault.saw("steady clock")
    assert (fault.injection.outcome, seen["running"]) == ("installed", True)
    assert seen["ppm"] == pytest.approx(2_000_000, rel=0.05)
    (now,) = (await fault.heal())["nodes"]
    assert now["ppm"] == pytest.approx(1_000_000, rel=0.05)


async def _strobe(scene: LiveScene) -> None:
    fault = await scene.inject("clock-strobe", target="follower", ms=5_000, period_ms=20)
    (seen,) = fault.saw("strobe")
    assert fault.injection.outcome == "installed"
    assert min(seen["ahead"], seen["behind"]) > 0
    (now,) = (await fault.heal())["nodes"]
    assert now["right"]
    assert scene.open_entries("clock") == []


def _last_of_a_majority(scene: LiveScene) -> int:
    """The last offset that two of three nodes have on their disks."""
    logs = [scene.system.stored_log(n) for n in scene.system.nodes]
    return sorted(log[-1].last if log else -1 for log in logs)[1]


async def _off_ms(scene: LiveScene, node: str) -> float:
    """How far a node's wall clock is from the host's, but for the age of the reading."""
    return float((await scene.env.clocks.clock(node))["wall_ms"] - time.time() * 1e3)


def test_a_voter_moves_to_another_port_of_its_container_and_back(tmp_path: Path) -> None:
    play(tmp_path, move_there_and_back, replace(DOCKER, settings=DYNAMIC), frozenset())
    assert left_of(tmp_path / "state") == []


def test_without_fsync_a_power_failure_loses_what_was_acknowledged_and_that_is_caught(
    tmp_path: Path,
) -> None:
    spec = replace(DOCKER, nemeses=("power",), time_limit_s=2.0)
    spec = replace(spec, settings={"krucible.fsync": "false"})
    fault = Fault(0, "power", 800, 200, {"target": "all", "mid_write": False}, 0.5)
    session = prepare(spec, Store(tmp_path), faults=[fault])
    execute(session, state_dir=tmp_path / "state")
    assert session.judgement is not None
    assert session.judgement.system is Valid.INVALID, session.judgement


def test_an_image_without_libfaketime_has_no_clock_faults_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_image, "FAKETIME", "/opt/none.so")

    async def main(scene: LiveScene) -> None:
        reason = nemeses.get("clock-jump")().available(scene.cluster)
        assert "has no /opt/none.so" in str(reason)

    play(tmp_path, main, replace(DOCKER, voters=1), frozenset({Clocks}))
