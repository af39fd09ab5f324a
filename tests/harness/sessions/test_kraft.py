"""``krucible run`` on real nodes: healthy ones are valid, each seeded bug is caught."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.contracts.nemesis import Fault
from harness.history.ops import History
from harness.registry import mutants_of
from harness.sessions.live import execute, prepare
from harness.spec import RunSpec
from harness.store.folder import Store
from tests.support.commands.process import Ran, journals, krucible, marked, run

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3", "n4", "n5")
ALL_IN_14_S = "kill,pause,partition-halves,partition-one-way,partition-isolate-leader"
BROKEN_INSTALLATION = """
import os, sys
if "run" in sys.orig_argv and "node" in sys.orig_argv:
    print("a part is missing", flush=True)
    os._exit(3)
"""
MUTANTS = {m["name"]: set(m["breaks"].split(", ")) for m in mutants_of("kraft")}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> object:
    yield
    assert marked(tmp_path / "state") == []
    assert journals(tmp_path / "state") == []


def test_a_healthy_cluster_under_faults_is_valid(tmp_path: Path) -> None:
    ran = run(tmp_path, nemesis=ALL_IN_14_S, time_limit=14, rate=150, seed=11)
    assert ran.code == 0, ran.explain()
    _assert_stored(ran)
    _assert_evidence(ran)
    summary = ran.summary
    assert (summary["verdict"], summary["anomalies"]) == ("valid", [])
    assert summary["ops"]["ok"] > 500
    assert {fault.nemesis for fault in ran.schedule} == {*ALL_IN_14_S.split(",")}
    again = krucible(tmp_path, "check", ran.run_dir.path)
    assert again.code == 0, again.explain()


def _assert_stored(ran: Ran) -> None:
    """Every file of a run is there, and has something in it."""
    folder = ran.run_dir
    whole = [folder.spec, folder.schedule, folder.history, folder.results, folder.report]
    for node in NODES:
        whole += [folder.events(node), folder.log(node), folder.records(node)]
    assert [p.name for p in whole if not p.is_file() or not p.stat().st_size] == []
    assert "<html" in folder.report.read_text(encoding="utf-8")
    assert (folder.path.parent.parent / "latest").resolve() == folder.path.resolve()


def _assert_evidence(ran: Ran) -> None:
    """What was installed shows that it took hold, and that it is gone."""
    installed = [
        op.value
        for op in ran.nemesis_ops("inject", "outcome")
        if op.value["outcome"] == "installed"
    ]
    healed = {op.value["id"]: op.value["evidence"] for op in ran.nemesis_ops("heal", "evidence")}
    assert len(installed) >= 5
    for fault in installed:
        assert fault["evidence"], fault
        assert healed[fault["id"]], fault


# Some of the zoo with real processes; all of it is simulated in test_zoo.
@pytest.mark.parametrize(
    "mutant",
    [pytest.param("ack-before-commit", marks=pytest.mark.long), "commit-without-majority"],
)
def test_a_seeded_bug_is_caught_for_what_it_breaks(tmp_path: Path, mutant: str) -> None:
    faults = "partition-isolate-leader,partition-halves,kill"
    ran = run(tmp_path, mutant=mutant, nemesis=faults, time_limit=9, rate=150, seed=1)
    assert ran.code == 1, ran.explain()
    assert ran.invariants & MUTANTS[mutant], ran.explain()
    assert ran.run_dir.report.is_file()


def test_a_forgotten_vote_is_caught(tmp_path: Path) -> None:
    """All are killed, so that there are some among them who have given a vote in this epoch."""
    spec = RunSpec(1, voters=3, observers=0, mutant="forgotten-vote", time_limit_s=5.0)
    faults = [Fault(0, "kill", 2_000, 500, {"target": "all"}, 0.5)]
    session = prepare(spec, Store(tmp_path / "store"), faults=faults)
    execute(session, state_dir=tmp_path / "state")
    assert session.judgement is not None
    assert {each.invariant for each in session.judgement.anomalies} & MUTANTS["forgotten-vote"]


@pytest.mark.parametrize("workload", ["topics", pytest.param("observers", marks=pytest.mark.long)])
def test_the_other_workloads_are_valid_on_a_healthy_cluster(tmp_path: Path, workload: str) -> None:
    faults = "kill,partition-isolate-leader"
    ran = run(tmp_path, workload=workload, nemesis=faults, time_limit=7, rate=150, seed=2)
    assert ran.code == 0, ran.explain()
    assert ran.summary["ops"]["ok"] > 100


def asked_of(key: str, history: History) -> list[tuple[str, object]]:
    """What clients asked of a key, in that order, up to the last write.

    Later reads may be those of all keys in use after the heal: a slow run has them sooner.
    """
    ops = [op for op in history.clients() if op.type == "invoke" and op.key == key]
    while ops and ops[-1].f != "write":
        ops.pop()
    return [(op.f, op.value) for op in ops]


def test_repro_plays_the_same_faults_again(tmp_path: Path) -> None:
    faults = "kill,partition-halves"
    first = run(tmp_path, observers=0, nemesis=faults, time_limit=6, rate=100, seed=4)
    assert first.code == 0, first.explain()
    second = krucible(
        tmp_path, "repro", first.run_dir.path, "--store", tmp_path / "store", "--json"
    )
    assert second.code == 0, second.explain()
    assert second.schedule == first.schedule
    assert second.run_dir.path != first.run_dir.path
    assert second.run_dir.spec.read_bytes() == first.run_dir.spec.read_bytes()
    played = [op.value["id"] for op in second.nemesis_ops("inject", "outcome")]
    assert played == [fault.id for fault in first.schedule]
    # The same ops are asked for, in the same order on each key, whatever the timing.
    wanted, asked = asked_of("r0", first.history), asked_of("r0", second.history)
    count = min(len(wanted), len(asked))
    assert count >= 20
    assert asked[:count] == wanted[:count]


def test_one_voter_without_faults_is_enough(tmp_path: Path) -> None:
    ran = run(tmp_path, voters=1, observers=0, nemesis="none", time_limit=2, rate=50, seed=5)
    assert ran.code == 0, ran.explain()
    assert ran.schedule == []


def test_a_node_that_cannot_start_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN_INSTALLATION)
    began = time.monotonic()
    ran = krucible(
        tmp_path, "run", "--store", tmp_path / "store", "--voters", 1, PYTHONPATH=str(tmp_path)
    )
    assert ran.code == 255, ran.explain()
    last = ran.err.rstrip().splitlines()[-1]
    assert last.startswith("krucible: n")
    assert "ended while it started" in last
    assert "exit code 3" in last
    assert last.endswith(".log")
    assert "a part is missing" in Path(last.rsplit(" ", 1)[1]).read_text()
    assert "Traceback" not in ran.err
    assert time.monotonic() - began < 30


def test_a_setting_that_no_node_knows_is_refused_before_anything_starts(tmp_path: Path) -> None:
    ran = krucible(tmp_path, "run", "--store", tmp_path / "store", "--set", "node.id=many")
    assert ran.code in (254, 255), ran.explain()
    assert "node.id" in ran.err
    assert "Traceback" not in ran.err
