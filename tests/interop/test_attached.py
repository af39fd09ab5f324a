"""Runs on a cluster of Apache Kafka's that the test started by itself, outside of any run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from harness.verdict import EXIT_UNKNOWN, EXIT_VALID
from tests.support.attached.cluster import Foreign, foreign
from tests.support.commands.process import journals, krucible, run
from tests.support.commands.victim import kills, running
from tests.support.ssh.hosts import sshd_hosts

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PLAY = "[clients]\nplay_brokers = true"
GUARD = "no_leader_s = 60\nunder_replicated_s = 90\nunreachable_s = 90"
MOMENT_MAX_S = 30.0  # of start-up, faults and recovery
OPTIONS = {"rate": 30, "concurrency": 4}


@pytest.fixture(scope="module")
def cluster(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with foreign(tmp_path_factory.mktemp("foreign"), kafka) as found:
        yield found


def test_faults_are_judged_and_the_cluster_is_left_as_it_was(
    cluster: Foreign, tmp_path: Path
) -> None:
    file = cluster.attach({1: ("pause", "kill"), 2: ("kill",)}, guard=GUARD)
    before = cluster.identities()
    ran = run(tmp_path, attach=file, time_limit=8, seed=3, nemesis="pause,kill", **OPTIONS)
    assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
    assert {"consensus", "observers", "reads", "log-scan"} == set(ran.summary["undecided"])
    reads = [op for op in ran.history if op.f == "read" and op.type == "ok"]
    assert reads, "the last reads, which are judged"
    hit = {
        (op.value["nemesis"], *op.value["targets"])
        for op in ran.nemesis_ops("inject", "outcome")
        if op.value["outcome"] == "installed"
    }
    assert {fault for fault, *_ in hit} == {"pause", "kill"}, ran.explain()
    assert {node for _, *nodes in hit for node in nodes} <= {"n1", "n2"}
    told = json.loads((ran.run_dir.path / "attached.json").read_text())
    assert told["left_behind"] == []
    after = cluster.identities()
    assert {id_ for id_ in before if before[id_] != after[id_]} <= {1, 2}
    cluster.await_well()


@pytest.mark.long
@pytest.mark.parametrize("number", range(kills(1)))
def test_killed_at_any_moment_every_node_is_as_it_was(
    cluster: Foreign, tmp_path: Path, number: int
) -> None:
    allow = dict.fromkeys(cluster.members, ("pause", "kill", "stop"))
    file = cluster.attach(allow, guard=GUARD, more=PLAY)
    options = {"attach": file, "time-limit": 20, "seed": number, **OPTIONS}
    options |= {"workload": "producer-ids", "nemesis": "pause,kill,stop"}
    with running(tmp_path, options) as victim:
        victim.kill_within(MOMENT_MAX_S, f"moment {number}")
        cluster.await_well()
        healed = krucible(tmp_path, "heal")
        assert healed.code == 0, healed.explain()
        assert journals(victim.state) == []
        assert "T" not in set(map(cluster.state, cluster.members))


@pytest.mark.long
def test_a_killed_harness_leaves_every_node_as_it_was(cluster: Foreign, tmp_path: Path) -> None:
    allow = dict.fromkeys(cluster.members, ("pause", "kill", "stop"))
    file = cluster.attach(allow, guard=GUARD, more=PLAY)
    options = {"attach": file, "time-limit": 90, "seed": 2, "pace": "lasting", **OPTIONS}
    options["workload"] = "producer-ids"
    with running(tmp_path, options) as victim:
        victim.until_said("(pause|kill|stop) installed")
        victim.send(signal.SIGKILL)
        cluster.await_well()
        healed = krucible(tmp_path, "heal")
        assert healed.code == 0, healed.explain()
        assert journals(victim.state) == []
        assert "T" not in set(map(cluster.state, cluster.members))


@pytest.mark.long
def test_controllers_on_hosts_over_ssh_are_hurt_and_left_as_they_were(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    with (
        sshd_hosts(tmp_path) as hosts,
        foreign(tmp_path / "foreign", kafka, brokers=0, hosts=hosts) as cluster,
    ):
        wanted = {"pause", "kill", "stop", "partition-isolate-leader"}
        allow = dict.fromkeys(cluster.members, ("pause", "kill", "stop", "partition"))
        file = cluster.attach(allow, guard=GUARD, more=PLAY)
        options = {"attach": file, "nemesis": ",".join(sorted(wanted)), "seed": 1, **OPTIONS}
        ran = run(tmp_path, **options, time_limit=40, workload="producer-ids")
        assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
        tried = [op.value for op in ran.nemesis_ops("inject", "outcome")]
        installed = {value["nemesis"] for value in tried if value["outcome"] == "installed"}
        assert installed == wanted, tried
        assert [value for value in tried if value["outcome"] == "failed"] == []
        cluster.await_well()
        assert journals(tmp_path / "state") == []
