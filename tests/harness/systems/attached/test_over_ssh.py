"""Runs on a cluster whose nodes are on other hosts, each reached over ssh: hurt, and left whole."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.verdict import EXIT_UNKNOWN, EXIT_VALID
from tests.support.attached.cluster import Foreign, foreign
from tests.support.commands.process import journals, krucible, run
from tests.support.commands.victim import kills, running
from tests.support.ssh.hosts import sshd_hosts

pytestmark = pytest.mark.slow

GUARD = "no_leader_s = 60\nunder_replicated_s = 60\nunreachable_s = 60"
ALL = ("kill", "pause", "partition")
MOMENT_MAX_S = 20.0  # of start-up, faults and recovery


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    folder = tmp_path_factory.mktemp("hosts")
    with (
        sshd_hosts(folder) as hosts,
        foreign(tmp_path_factory.mktemp("foreign"), None, brokers=0, hosts=hosts) as found,
    ):
        yield found


def every(cluster: Foreign, *families: str) -> dict[int, tuple[str, ...]]:
    return dict.fromkeys(cluster.members, families)


def test_nodes_are_cut_off_frozen_and_killed_and_left_as_they_were(
    cluster: Foreign, tmp_path: Path
) -> None:
    file = cluster.attach(every(cluster, *ALL), guard=GUARD)
    wanted = {"kill", "pause", "partition-isolate-leader"}
    options = {"attach": file, "nemesis": ",".join(sorted(wanted)), "seed": 4}
    ran = run(tmp_path, **options, time_limit=12, rate=30)
    assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
    tried = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in tried if value["outcome"] == "installed"]
    assert {value["nemesis"] for value in installed} == wanted, tried
    cut = next(v for v in installed if v["nemesis"] == "partition-isolate-leader")
    seen = [e for e in cut["evidence"] if e["saw"] == "cut link"]
    assert seen
    assert not any(e["passed"] for e in seen)
    cluster.await_well()
    assert journals(tmp_path / "state") == []


@pytest.mark.long
def test_the_doctor_says_how_each_host_is_reached(cluster: Foreign, tmp_path: Path) -> None:
    file = cluster.attach(every(cluster, *ALL))
    ran = krucible(tmp_path, "doctor", "--attach", file)
    assert ran.code == 0, ran.explain()
    for member in cluster.quorum:
        assert f"root@{member.endpoint.host}" in ran.out, ran.explain()


@pytest.mark.parametrize(
    "fault",
    [
        "partition",
        pytest.param("pause", marks=pytest.mark.long),
        pytest.param("kill", marks=pytest.mark.long),
    ],
)
def test_a_killed_harness_leaves_hosts_as_they_were(
    cluster: Foreign, tmp_path: Path, fault: str
) -> None:
    file = cluster.attach(every(cluster, fault), guard=GUARD)
    options = {"attach": file, "time-limit": 60, "rate": 30, "seed": 2, "pace": "lasting"}
    with running(tmp_path, options) as victim:
        victim.until_said(f"{fault}(-[a-z-]+)? installed")
        victim.send(signal.SIGKILL)
        cluster.await_well()  # before anybody heals: the keepers do
        assert_healed(victim.state, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(kills(1)))
def test_killed_at_any_moment_hosts_are_as_they_were(
    cluster: Foreign, tmp_path: Path, number: int
) -> None:
    file = cluster.attach(every(cluster, *ALL), guard=GUARD)
    options = {"attach": file, "time-limit": 12, "rate": 30, "seed": number, "pace": "dense"}
    with running(tmp_path, options) as victim:
        victim.kill_within(MOMENT_MAX_S, f"moment {number}")
        cluster.await_well()
        assert_healed(victim.state, tmp_path)


def assert_healed(state: Path, folder: Path) -> None:
    """Hold that a heal finds nothing more to do."""
    healed = krucible(folder, "heal")
    assert healed.code == 0, healed.explain()
    assert journals(state) == []
