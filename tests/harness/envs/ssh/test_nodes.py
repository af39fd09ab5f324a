"""Disks, power, clocks and links of nodes on ssh hosts: what each fault does, and that it ends."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.agent import netem as netem_host
from harness.contracts.hosts import Clocks, Disks, Power
from harness.envs.clocks import orders as node_clocks
from harness.envs.ssh.hosts import HOSTS_VARIABLE
from harness.registry import nemeses
from tests.support.live.moves import move_there_and_back
from tests.support.live.scene import SPEC, LiveScene, play
from tests.support.ssh.hosts import Hosts, sshd_hosts

pytestmark = pytest.mark.slow
SETTINGS = {"metadata.max.idle.interval.ms": "50", "krucible.quorum": "dynamic"}
SSH = replace(SPEC, env="ssh", settings=SETTINGS)
ALL = frozenset({Disks, Power, Clocks})
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        yield made


def test_disks_power_clocks_and_links_of_hosts_fail_and_are_well_after_the_heal(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOSTS_VARIABLE, str(hosts.file(tmp_path)))

    shared: list[Path] = []

    async def main(scene: LiveScene) -> None:
        await _full_disk(scene)
        await _damage(scene)
        await _power(scene)
        if node_clocks.no_fake_clocks() is None:
            await _clocks(scene)
            pids = [scene.env.process(node).pid for node in scene.system.nodes]
            shared.extend(Path(f"/dev/shm/faketime_shm_{pid}") for pid in pids)
            assert all(path.exists() for path in shared)
        _without_library(scene, hosts)
        await _links(scene)

    play(tmp_path, main, SSH, ALL)
    assert hosts.left(tmp_path) == []
    assert not any(path.exists() for path in shared)


def test_a_voter_moves_to_another_port_of_its_host_and_back_and_cuts_follow(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOSTS_VARIABLE, str(hosts.file(tmp_path)))
    play(tmp_path, move_there_and_back, SSH, frozenset())
    assert hosts.left(tmp_path) == []


async def _full_disk(scene: LiveScene) -> None:
    full = await scene.inject("disk-full", target="leader")
    (seen,) = full.saw("disk")
    node = seen["node"]
    assert seen["errno"] == errno.ENOSPC
    assert scene.open_entries("ssh disk") == [node]
    healed = await full.heal()
    assert (healed["restarted"], healed["met"][node] > 0) == ([node], True)
    assert "[Errno 28] No space left on device" in scene.printed(node)
    assert (await scene.env.disks.try_disk(node))["errno"] is None
    assert scene.open_entries("ssh disk") == []


async def _damage(scene: LiveScene) -> None:
    for kind in ("disk-bit-flip", "disk-old-copy"):
        fault = await scene.inject(kind, target="follower")
        (seen,) = fault.saw("damage")
        assert seen["readable_end"] < seen["log_end"], kind
        assert (await fault.heal())["log_end"] >= seen["log_end"]
        told = [e["what"] for e in scene.events("disk", seen["node"])][-1]
        assert told == ("log" if kind == "disk-bit-flip" else "wipe")
    wiped = await scene.inject("disk-wipe", target="follower")
    (seen,) = wiped.saw("damage")
    assert (await wiped.heal())["voters"][seen["node"]] == seen["directory"]


async def _power(scene: LiveScene) -> None:
    committed = await _last_of_a_majority(scene)
    power = await scene.inject("power", target="all", mid_write=True)
    seen = power.saw("power loss")
    assert all(e["gone"] for e in seen)
    assert any(e["torn_write"] for e in seen)
    assert await _last_of_a_majority(scene) >= committed, "what was fsynced is there"
    assert len((await power.heal())["restarted"]) == 3


async def _clocks(scene: LiveScene) -> None:
    jump = await scene.inject("clock-jump", target="leader", ms=-HOUR_MS)
    (seen,) = jump.saw("wall clock")
    assert (jump.injection.outcome, seen["seen"]) == ("installed", True)
    assert scene.open_entries("ssh clock") == [seen["node"]]
    await jump.heal()
    assert scene.open_entries("ssh clock") == []
    rate = await scene.inject("clock-rate", target="follower", ppm=2_000_000)
    (seen,) = rate.saw("steady clock")
    assert seen["ppm"] == pytest.approx(2_000_000, rel=0.05)
    (now,) = (await rate.heal())["nodes"]
    assert now["ppm"] == pytest.approx(1_000_000, rel=0.05)


async def _links(scene: LiveScene) -> None:
    slow = await scene.inject("slow-links", target="leader", way="in", delay_ms=150, jitter_ms=0)
    assert slow.injection.outcome == "installed", slow.injection
    (link,) = slow.saw("shaped link")
    by = "netem" if netem_host.lacking() is None else "NFQUEUE"
    assert (link["by"], link["latency_ms"]) == (by, 150)
    probes = slow.saw("probe")
    assert min(e["elapsed_ms"] for e in probes if e["passed"]) >= 290, "a handshake and a request"
    healed = await slow.heal()
    assert healed["passed"] > 0
    again = [await scene.env.net.probe(e["source"], e["destination"], timeout_s=2) for e in probes]
    assert max(probe.elapsed_ms for probe in again) < 290
    for kind in ("duplicating-links", "corrupting-links"):
        fault = await scene.inject(kind, target="all", way="both", duplicate=0.6, corrupt=0.3)
        assert fault.injection.outcome == "installed", fault.injection
        assert any(e["told"] for e in fault.saw("probe")), kind
        await fault.heal()
    assert not [e for e in scene.journal.open_entries() if e.kind == "ssh rules"]


def _without_library(scene: LiveScene, hosts: Hosts) -> None:
    """As if the first host had said at the start that it has none."""
    scene.env._places["n1"].faketime = None
    reason = str(nemeses.get("clock-jump")().available(scene.cluster))
    assert f"no libfaketime on root@{hosts.hosts[0].address}: apt-get install" in reason


async def _last_of_a_majority(scene: LiveScene) -> int:
    """The last offset that two of three nodes have on their disks."""
    for node in scene.system.nodes:
        await scene.env.refresh(node)
    logs = [scene.system.stored_log(n) for n in scene.system.nodes]
    return sorted(log[-1].last if log else -1 for log in logs)[1]
