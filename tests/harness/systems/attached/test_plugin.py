"""Runs on a cluster that the test started by itself: judged, hurt as allowed, left as it was."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.contracts.environment import Address
from harness.healing.journal import read_journal
from harness.kafka.survey import topics_of
from harness.processes.procfs import identify, send_signal
from harness.verdict import EXIT_ABORTED, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from node.wire.network import Sockets
from tests.support.attached.cluster import Foreign, foreign
from tests.support.commands.process import Ran, journals, krucible, run
from tests.support.commands.victim import Victim, running

pytestmark = pytest.mark.slow

LENIENT = "no_leader_s = 60\nunder_replicated_s = 60\nunreachable_s = 60"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with foreign(tmp_path_factory.mktemp("foreign"), None) as found:
        yield found


def every(cluster: Foreign, *families: str) -> dict[int, tuple[str, ...]]:
    return dict.fromkeys(cluster.members, families)


def topics(cluster: Foreign) -> list[str]:
    end = cluster.brokers[0].endpoint
    asked = topics_of("", Address(end.host, end.port), Sockets(), timeout_s=5.0)
    return asyncio.run(asked) or []


def test_clients_and_checkers_work_and_nothing_of_theirs_stays(
    cluster: Foreign, tmp_path: Path
) -> None:
    before = cluster.identities()
    ran = run(tmp_path, attach=cluster.attach(), workload="register", time_limit=2, rate=40)
    assert ran.code == EXIT_VALID, ran.explain()
    assert ran.summary["ops"]["ok"] > 0
    assert set(ran.summary["undecided"]) == {"consensus", "observers", "reads", "log-scan"}
    assert "events" in ran.summary["undecided"]["consensus"]
    told = json.loads((ran.run_dir.path / "attached.json").read_text())
    assert told["cluster"]
    assert told["left_behind"] == []
    assert [name for name in topics(cluster) if name.startswith("krucible-")] == []
    assert cluster.identities() == before
    assert journals(tmp_path / "state") == []


@pytest.mark.long
def test_a_replay_wants_the_cluster_to_be_named_again(cluster: Foreign, tmp_path: Path) -> None:
    file = cluster.attach()
    ran = run(tmp_path, attach=file, time_limit=1, rate=30, seed=5)
    spec = json.loads(ran.run_dir.spec.read_text())
    assert str(file) not in json.dumps(spec)
    assert spec["settings"]["attach.n1"].startswith("1 controller=")
    refused = krucible(tmp_path, "repro", "latest")
    assert refused.code == EXIT_USAGE
    assert "--attach FILE" in refused.err
    again = krucible(tmp_path, "repro", "latest", "--attach", file, "--json")
    assert json.loads(again.out)["exit_codes"] == [EXIT_VALID], again.explain()


@pytest.mark.long
def test_the_doctor_says_what_is_reached_and_allowed(cluster: Foreign, tmp_path: Path) -> None:
    file = cluster.attach({1: ("pause", "kill")})
    ran = krucible(tmp_path, "doctor", "--attach", file, "--json")
    found = {each["name"]: each for each in json.loads(ran.out)}
    assert "voters 1, 2, 3; other nodes 11" in found["cluster"]["detail"]
    assert found["n1 faults"]["detail"].startswith(f"kill, pause; pid {cluster.pid(1)}")
    assert "does not reach it" in found["n2 faults"]["detail"]
    assert "at most 1 nodes at once, never a majority" in found["faults"]["detail"]


@pytest.mark.long
def test_what_the_file_does_not_allow_is_refused(cluster: Foreign, tmp_path: Path) -> None:
    file = cluster.attach({1: ("pause",)})
    for arguments, said in (
        (("--nemesis", "kill"), "does not allow it; it allows: pause"),
        (("--system", "kraft", "--env", "docker"), "--attach FILE says what the cluster is"),
        (("--workload", "isr"), "works only with"),
        (("--set", "broker.session.timeout.ms=1"), "a foreign cluster keeps its settings"),
        (("--weather", "slow"), "left as they are"),
    ):
        ran = krucible(tmp_path, "run", "--attach", file, *arguments)
        assert ran.code == EXIT_USAGE, ran.explain()
        assert said in ran.err


@pytest.mark.long
def test_faults_hit_one_node_at_a_time_and_only_where_allowed(
    cluster: Foreign, tmp_path: Path
) -> None:
    file = cluster.attach({1: ("pause",), 2: ("kill",)}, guard=LENIENT)
    before = cluster.identities()
    options = {"attach": file, "time_limit": 12, "rate": 40, "pace": "dense", "seed": 3}
    ran = run(tmp_path, **options)
    assert ran.code in (EXIT_VALID, EXIT_UNKNOWN), ran.explain()
    targets = {
        (op.value["nemesis"], *op.value["targets"])
        for op in ran.nemesis_ops("inject", "outcome")
        if op.value["outcome"] == "installed"
    }
    assert targets == {("pause", "n1"), ("kill", "n2")}, ran.explain()
    after = cluster.identities()
    assert {id_ for id_ in before if before[id_] != after[id_]} == {2}
    cluster.await_well()
    assert most_at_once(ran) == 1


def most_at_once(ran: Ran) -> int:
    """How many faults were in force at a time, at most."""
    held, most = set[int](), 0
    for op in ran.history.nemesis():
        if op.f == "inject" and op.value.get("outcome") == "installed":
            held.add(op.value["id"])
        if op.f == "heal" and "evidence" in op.value:
            held.discard(op.value["id"])
        most = max(most, len(held))
    return most


@pytest.mark.long
def test_a_guard_that_is_hit_ends_the_run_and_all_is_healed(
    cluster: Foreign, tmp_path: Path
) -> None:
    file = cluster.attach({1: ("pause",)}, guard="unreachable_s = 1\npoll_s = 0.2")
    options = {"attach": file, "time-limit": 60, "rate": 30, "seed": 1, "pace": "lasting"}
    who = identify(cluster.pid(11))
    assert who is not None
    with running(tmp_path, options) as victim:
        victim.until_said("pause installed: n1")
        send_signal(who, signal.SIGSTOP)  # not our doing: its owner's
        try:
            victim.until_said("phase abort")
        finally:
            send_signal(who, signal.SIGCONT)
        assert victim.wait() == EXIT_ABORTED, victim.said
    assert "ABORTED: n4 cannot be reached, and no fault of ours holds it" in victim.said
    assert cluster.state(1) != "T"
    results = json.loads(victim.run_dir.results.read_text())
    assert any("the run was aborted" in reason for reason in results["coverage_reasons"])
    assert journals(victim.state) == []
    cluster.await_well()


@pytest.mark.parametrize(
    ("fault", "stage"),
    [pytest.param("pause", "T", marks=pytest.mark.long), ("kill", "gone")],
)
def test_a_harness_that_is_killed_leaves_every_node_as_it_was(
    cluster: Foreign, tmp_path: Path, fault: str, stage: str
) -> None:
    file = cluster.attach(every(cluster, fault), guard=LENIENT)
    options = {"attach": file, "time-limit": 60, "rate": 30, "seed": 2, "pace": "lasting"}
    with running(tmp_path, options) as victim:
        victim.until_said(f"{fault} installed")
        assert stage in {s if s != "Z" else "gone" for s in map(cluster.state, cluster.members)}
        victim.send(signal.SIGKILL)
        cluster.await_well()  # before anybody heals: the keepers do
        assert_healed(victim, cluster)


@pytest.mark.long
def test_a_harness_that_is_killed_with_its_keepers_is_healed_by_the_journal(
    cluster: Foreign, tmp_path: Path
) -> None:
    file = cluster.attach(every(cluster, "pause", "kill"), guard=LENIENT)
    options = {"attach": file, "time-limit": 60, "rate": 30, "seed": 4, "pace": "lasting"}
    with running(tmp_path, options) as victim:
        victim.until_said("(pause|kill) installed")
        kinds = {e.kind for path in journals(victim.state) for e in read_journal(path)[1]}
        assert kinds & {"attached pause", "attached end"}
        victim.stop()  # so that it cannot notice
        for pid in keepers(victim):
            who = identify(pid)
            assert who is not None
            send_signal(who, signal.SIGKILL)
        victim.send(signal.SIGKILL)
        assert_healed(victim, cluster)
        cluster.await_well()


def keepers(victim: Victim) -> list[int]:
    """The pids of the keepers that a harness has started."""
    said = subprocess.run(
        ["pgrep", "-P", str(victim.pid), "-f", "keep"], capture_output=True, text=True, check=True
    )
    return [int(pid) for pid in said.stdout.split()]


def assert_healed(victim: Victim, cluster: Foreign) -> None:
    """A heal leaves no journal, and no node that stands still."""
    healed = krucible(victim.folder, "heal")
    assert healed.code == 0, healed.explain()
    assert journals(victim.state) == []
    assert "T" not in set(map(cluster.state, cluster.members))
