"""Apache Kafka on ssh hosts, which have Java: the jars are found there, or go there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist, cache_folder
from tests.support.commands.process import journals, run
from tests.support.commands.victim import kills, running
from tests.support.kafka.cluster import wait_for
from tests.support.kafka.told import judged_from_inside
from tests.support.ssh.hosts import Hosts, sshd_hosts

pytestmark = pytest.mark.slow
MOMENT_MAX_S = 40.0  # of start-up, faults and recovery
EMPTIED = "docs/findings.md, an error while a log is recovered"  # if it strikes just then
SMALL = {"env": "ssh", "system": "kafka", "workload": "producer-ids", "observers": 0, "rate": 50}


@pytest.fixture(scope="module")
def hosts(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts; the last one has an empty folder where the others have Kafka's jars."""
    assert kafka.archive.is_file()
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        bare = made.hosts[-1]
        bare.down()
        hidden = f'mount -t tmpfs none {cache_folder()} && exec "$@"'
        bare.up("unshare", "--mount", "sh", "-c", hidden, "sh")
        yield made


def test_kafka_on_hosts_is_valid_under_kills_cuts_and_clocks(hosts: Hosts, tmp_path: Path) -> None:
    file, faults = hosts.file(tmp_path), "kill,partition-isolate-leader,clock-jump"
    more = {"controller.quorum.append.linger.ms": "0"}
    options = {**SMALL, "hosts": file, "nemesis": faults, "time_limit": 9, "seed": 5}
    ran = run(tmp_path, **options, set="=".join(*more.items()))
    judged_from_inside(ran)
    assert hosts.left(tmp_path) == []
    assert journals(tmp_path / "state") == []


def test_kafkas_disks_and_power_on_hosts_are_in_our_hands(hosts: Hosts, tmp_path: Path) -> None:
    file, faults = hosts.file(tmp_path), "power,disk-full,disk-io-error"
    options = {**SMALL, "hosts": file, "nemesis": faults, "time_limit": 12, "seed": 3}
    ran = run(tmp_path, **options)
    assert ran.code == 0 or ran.findings() == {EMPTIED}, ran.explain()
    seen = {
        each["saw"]
        for op in ran.nemesis_ops("inject", "outcome")
        for each in op.value.get("evidence", ())
    }
    assert {"power loss", "disk"} <= seen, ran.explain()
    assert hosts.left(tmp_path) == []
    assert journals(tmp_path / "state") == []


@pytest.mark.long
@pytest.mark.parametrize("number", range(kills(1)))
def test_killed_at_any_moment_nothing_stays_on_any_host(
    hosts: Hosts, tmp_path: Path, number: int
) -> None:
    faults = "kill,pause,partition,slow-links,power,disk,clock"
    options = {**SMALL, "hosts": hosts.file(tmp_path), "nemesis": faults, "time-limit": 20}
    with running(tmp_path, {**options, "seed": number}) as victim:
        victim.kill_within(MOMENT_MAX_S, f"moment {number}")
        wait_for(lambda: hosts.left(tmp_path) == [], "hosts are as before", lambda: victim.said)
        victim.assert_healed()


def test_a_host_without_java_says_so(hosts: Hosts, tmp_path: Path) -> None:
    java = shutil.which("true")
    file = hosts.file(tmp_path, f'java = "{java}"')
    ran = run(tmp_path, **SMALL, hosts=file, time_limit=1, seed=1)
    assert ran.code == 255, ran.explain()
    assert f"no Java 17 or newer ({java} is no Java): apt-get install" in ran.explain()
    assert hosts.left(tmp_path) == []
