"""Simulated runs: the same bytes from the same seed, valid when healthy, red for seeded bugs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextvars import Context
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from checkers.watches.invariants import Online
from harness.batch.trial import Trial
from harness.contracts.evidence import LogBatch
from harness.envs.sim.hosts import Sim
from harness.errors import UsageError
from harness.kafka.client import KafkaClient
from harness.processes.crew import Local
from harness.run.judge import judge_here
from harness.sessions import simulated, zoo
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, save, simulate
from harness.spec import RunSpec
from harness.store.folder import Store
from harness.store.reading import load_run
from harness.systems.nodes.stored_log import LogTail
from harness.verdict import EXIT_HARNESS, Anomaly, CheckResult, Valid
from krucible.commands import sim as sim_command
from krucible.meant import meant
from krucible.stores import opened
from node.log.memory_disk import MemoryDisk
from node.sim import loop as loop_module
from node.sim.host import Program
from tests.support.commands.command import krucible
from tests.support.commands.process import COMMAND
from tests.support.places import ROOT

BY_EVENTS = ("consensus", "observers")


def run_of(
    seed: int,
    *nemeses: str,
    mutant: str | None = None,
    workload: str = "register",
    stop_at: tuple[str, ...] | None = None,
    settings: dict[str, str] | None = None,
) -> SimRun:
    """A short simulated run."""
    spec = RunSpec(seed, nemeses=nemeses, mutant=mutant, workload=workload, stop_at=stop_at)
    spec = replace(spec, settings=settings or {})
    return simulate(Plan.simulated(replace(spec, time_limit_s=16.0, rate_hz=20.0, concurrency=4)))


@pytest.mark.parametrize("workload", ["register", "topics", "observers"])
def test_a_healthy_cluster_under_all_faults_is_valid(workload: str) -> None:
    run = run_of(7, "all", workload=workload)
    assert run.verdict is Valid.VALID, run.judgement.to_json()
    assert run.result.recovered
    assert {report.injection.outcome for report in run.result.faults} == {"installed"}
    assert run.simulated_ns > 16e9
    assert any("no answer from a peer" in x for lines in run.data.output.values() for x in lines)


@pytest.mark.parametrize(
    ("mutant", "invariant"),
    [("ack-before-commit", "S17"), ("commit-without-majority", "S13"), ("forgotten-vote", "S3")],
)
def test_a_seeded_bug_is_caught_for_the_right_reason(mutant: str, invariant: str) -> None:
    run = run_of(1, "all", mutant=mutant)
    assert run.verdict is Valid.INVALID
    assert invariant in {anomaly.invariant for anomaly in run.judgement.anomalies}


def judged_afterwards(run: SimRun) -> dict[str, CheckResult]:
    """What the checkers say of the events when they get them all at once, as from files."""
    judgement = judge_here(replace(run.data, watches={}), BY_EVENTS)
    return {result.checker: result for result in judgement.results}


def found_meanwhile(run: SimRun) -> dict[str, CheckResult]:
    return {r.checker: r for r in run.judgement.results if r.checker in BY_EVENTS}


@pytest.mark.parametrize("seed", [9, 10])
def test_what_is_found_while_it_happens_is_what_is_found_afterwards(seed: int) -> None:
    run = run_of(seed, "kill", "partition", "disk-bit-flip", workload="observers")
    assert found_meanwhile(run) == judged_afterwards(run)
    assert run.stop is None


@pytest.mark.parametrize("stop_at", [None, ()], ids=["stopped", "to-the-end"])
@pytest.mark.parametrize(
    ("mutant", "invariant"),
    [
        ("forgotten-vote", "S3"),
        ("fetch-before-flush", "S16"),
        ("publish-before-caught-up", "C10"),
        ("queued-heartbeats", "C12"),
        ("fenced-in-sync", "C2"),
        ("skipped-record", "C8"),
        ("ghost-topic", "C8"),
    ],
)
def test_bugs_are_found_while_it_happens_as_they_are_afterwards(
    mutant: str, invariant: str, stop_at: tuple[str, ...] | None
) -> None:
    (bug,) = zoo.bugs([mutant])
    assert bug.scenario is not None
    run = simulate(zoo.plan_of(bug.scenario, bug.scenario["seeds"][0], mutant, stop_at))
    assert found_meanwhile(run) == judged_afterwards(run)
    assert invariant in zoo.found(run)
    assert (run.stop is not None) == (stop_at is None)


def lie(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Let clients be told, from a write on, what is not so."""
    write, tried = KafkaClient.write, set[int]()

    async def lying(client: KafkaClient, key: str, value: int) -> None:
        tried.add(value)
        if what == "other":
            await write(client, key, value + 10_000)
        elif what == "early":
            await asyncio.sleep(0.001)
        elif what == "dirty":
            await asyncio.sleep(0.5)
            await write(client, key, value)

    async def dirty(client: KafkaClient, key: str) -> int:  # noqa: ARG001
        await asyncio.sleep(0.001)
        return max(tried, default=0)

    monkeypatch.setattr(KafkaClient, "write", lying)
    if what == "dirty":
        monkeypatch.setattr(KafkaClient, "read", dirty)


@pytest.mark.parametrize(
    ("what", "invariant"), [("early", "S17"), ("other", "S18"), ("dirty", "S34")]
)
def test_an_op_that_breaks_something_ends_a_simulation(
    what: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, what)
    run = run_of(1)
    assert run.stop is not None
    assert run.stop.invariant == invariant
    found = {anomaly.invariant for anomaly in run.judgement.anomalies}
    assert found - {"linearizability"} == {invariant}
    assert run.simulated_ns == run.stop.time_ns < 3e9
    assert found_meanwhile(run) == judged_afterwards(run)


def test_a_simulation_stops_at_the_first_violation() -> None:
    run = run_of(1, "all", mutant="commit-without-majority")
    stop, whole = run.stop, run_of(1, "all", mutant="commit-without-majority", stop_at=())
    assert stop is not None
    assert stop.invariant == "S13"
    assert run.simulated_ns == stop.time_ns < whole.simulated_ns
    assert run.data.events[stop.node][-1]["seq"] == stop.seq
    assert all(e["ts"] <= stop.time_ns for events in run.data.events.values() for e in events)
    for node, events in run.data.events.items():
        assert events == whole.data.events[node][: len(events)], "before it all is the same"
    first = run.judgement.anomalies[0]
    assert (first.invariant, first.message) == (stop.invariant, stop.message)
    assert first.message in {anomaly.message for anomaly in whole.judgement.anomalies}

    assert whole.stop is None
    assert whole.result.recovered is not None
    assert whole.data.history.stopped is None


def test_nothing_is_said_of_what_a_stopped_simulation_did_not_come_to() -> None:
    run = run_of(1, "all", mutant="commit-without-majority")
    assert run.stop is not None
    assert run.data.history.stopped == run.stop.to_json() == run.summary()["stopped"]
    assert {anomaly.invariant for anomaly in run.judgement.anomalies} == {"S13"}
    assert run.judgement.reasons["coverage"] == ["the simulation stopped when S13 was broken"]
    assert (run.result.recovered, run.result.crash) == (None, None)


def test_what_is_dropped_in_the_middle_of_its_work_does_not_count_as_broken() -> None:
    run = run_of(1, "kill", mutant="split-operation", workload="topics")
    assert run.stop is not None
    assert len(run.data.history.clients()) > 0, "clients were at work"
    assert (run.result.crash, run.judgement.reasons["harness"]) == (None, [])


def test_only_the_invariants_that_are_named_stop_a_simulation() -> None:
    run = run_of(1, "all", mutant="commit-without-majority", stop_at=("S9", "S17"))
    found = {anomaly.invariant for anomaly in run.judgement.anomalies}
    assert "S13" in found
    assert run.stop is None or run.stop.invariant in {"S9", "S17"}


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not() -> None:
    one, two = run_of(5, "all"), run_of(5, "all")
    assert one.trace_sha256 == two.trace_sha256
    assert one.data.events == two.data.events
    assert list(one.data.history) == list(two.data.history)
    assert one.calls == two.calls
    assert run_of(6, "all").trace_sha256 != one.trace_sha256


def test_bytes_do_not_depend_on_the_process_or_its_hash_seed() -> None:
    start = "from krucible.app import main; main()"
    argv = [sys.executable, "-c", start, "sim", "--seed", "11", "--time-limit", "16", "--json"]
    found = set()
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            argv,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=120,
        )
        found.add(json.loads(done.stdout)["trace_sha256"])
    assert len(found) == 1


def test_a_saved_simulation_is_a_run_of_the_store_and_repeats_to_the_byte(tmp_path: Path) -> None:
    run = run_of(2, "kill", mutant="forgotten-vote")
    assert run.verdict is Valid.INVALID
    path = save(run, opened(tmp_path)).path
    stored = load_run(path)
    assert stored.warnings == ()
    assert stored.data.events == run.data.events
    assert stored.data.logs == run.data.logs
    assert stored.data.snapshots == run.data.snapshots
    assert stored.data.output == run.data.output
    assert list(stored.data.history) == list(run.data.history)
    assert stored.data.spec == run.data.spec
    assert (path / "report.html").stat().st_size > 10_000
    again = simulate(Plan.simulated(stored.data.spec, stored.data.faults))
    assert again.trace_sha256 == run.trace_sha256 == (stored.results or {})["trace_sha256"]

    ended = krucible("repro", str(path), "--times", "2", "--store", str(tmp_path), "--json")
    assert ended.code == 1
    assert (ended.json["reproduced"], ended.json["times"]) == (2, 2)


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    options = ("--time-limit", "6", "--store", str(tmp_path))
    ended = krucible("sim", "--seed", "4", *options, "--json")
    told = ended.json
    assert (ended.code, told["verdict"], told["seed"], told["store"]) == (0, "valid", 4, None)
    assert len(told["trace_sha256"]) == 64
    assert not list(tmp_path.iterdir()), "what is valid is not kept"

    ended = krucible("sim", "--seeds", "1..3", "--jobs", "2", "--twice", *options, "--json")
    told = ended.json
    assert (ended.code, told["seeds"], told["verdicts"]) == (0, 3, {"valid": 3})
    assert told["not_same_bytes"] == []
    assert told["premises"]["S11"][1:] == [3, 3], "in all three runs that were watched"
    unmet = {name for name, (_, runs, _) in told["premises"].items() if not runs}
    assert set(told["premises_unmet"]) == unmet
    assert told["features"] == sum(told["features_by_kind"].values()) > 100
    alone = krucible("sim", "--seeds", "1..3", "--jobs", "1", *options, "--json").json
    for name in ("reached", "premises", "features", "features_by_kind"):
        assert alone[name] == told[name]

    ended = krucible(
        "sim", "--seeds", "1..9", "--jobs", "1", "--stop", "--mutant", "ack-before-commit", *options
    )
    assert ended.code == 1
    assert "seed 1: invalid (" in ended.out
    assert "krucible repro" in ended.out
    assert "1 seeds: 1 invalid" in ended.out


def test_a_batch_tells_of_failures_at_once_and_of_all_it_did_when_it_is_interrupted(
    tmp_path: Path,
) -> None:
    options = ("--mutant", "ack-before-commit", "--time-limit", "6", "--store", str(tmp_path))
    batch = subprocess.Popen(
        [*COMMAND, "sim", "--seeds", "1..100000", "--jobs", "2", *options],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert batch.stderr is not None
    assert batch.stderr.readline() == "simulating 100000 seeds, 2 at a time\n", "at once"
    told = batch.stderr.readline()
    assert re.match(r"seed \d+: invalid \(.+\)  \S*krucible repro \S+ --store ", told), told
    os.killpg(batch.pid, signal.SIGINT)
    out, _ = batch.communicate(timeout=60)
    assert batch.returncode == 130
    assert told in out
    assert re.search(r"^\d+ seeds: \d+ invalid", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("--seeds", "9..1"), "want A <= B"),
        (("--seeds", "x"), "want A..B"),
        (("--seeds", "1..2", "--seed", "1"), "want one of them, not both"),
        (("--mutant", "none-such"), "no mutant is called"),
        (("--set", "no.such.thing=1"), "--set"),
        (("--nemesis", "bogus"), "no nemesis is called"),
    ],
)
def test_bad_options_are_told_at_once(argv: tuple[str, ...], what: str) -> None:
    ended = krucible("sim", *argv)
    assert ended.code == 254
    assert what in ended.err


def test_a_node_that_is_never_done_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CALLS_AT_ONE_TIME_MAX", 20)
    run = run_of(1, "kill")
    assert run.verdict is Valid.INVALID
    (found,) = [a for a in run.judgement.anomalies if a.invariant == "L12"]
    assert "time stands still" in found.message
    assert run.events > 0


def test_nodes_that_are_far_too_busy_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "CALLS_PER_NODE_MAX", 20)
    monkeypatch.setattr(simulated, "CALLS_PER_OP_MAX", 0)
    run = run_of(1, "kill")
    assert run.verdict is Valid.INVALID
    (found,) = [a for a in run.judgement.anomalies if a.invariant == "L12"]
    assert found.message.endswith(" ns: 100 were too many")
    assert run.simulated_ns < 11e9


def break_at(monkeypatch: pytest.MonkeyPatch, start: int | None, where: str) -> None:
    """Let something of ours raise when a node is started for the nth time."""
    launch = Sim.launch

    def broken(environment: Sim, node: str, program: Program) -> None:
        if environment.process(node).pid == start and where == "call":
            raise LookupError("of ours")
        launch(environment, node, program)
        if environment.process(node).pid == start:
            environment.loop.call_soon(lambda: int("of ours"), context=Context())

    monkeypatch.setattr(Sim, "launch", broken)


@pytest.mark.parametrize(("start", "where"), [(1, "loop"), (2, "loop"), (None, "call")])
def test_a_harness_that_breaks_ends_the_simulation_and_not_its_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: int | None, where: str
) -> None:
    break_at(monkeypatch, start, where)
    run = run_of(1, "kill")
    assert run.verdict is Valid.UNKNOWN
    assert run.judgement.exit_code == EXIT_HARNESS
    assert "of ours" in (run.broken or "")
    assert "Traceback" in (run.traceback or "")
    path = save(run, opened(tmp_path)).path
    stored = load_run(path)
    assert stored.results is not None
    assert stored.results["harness_traceback"] == run.traceback
    again = meant(str(path), {}, None, Store(tmp_path))
    assert (again.spec, again.faults) == (run.data.spec, run.data.faults)
    assert (tmp_path / path / "report.html").is_file()


def test_a_watch_that_breaks_is_our_fault_and_not_the_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0

    def feed(_: object, event: object) -> list[Anomaly]:
        nonlocal calls
        calls += 1
        if calls == 100:
            raise LookupError(f"no idea what {event} is")
        return []

    monkeypatch.setattr(Online, "feed", feed)
    run = run_of(1, "kill")
    assert run.verdict is Valid.UNKNOWN
    assert not run.judgement.anomalies
    assert "LookupError: no idea what" in (run.broken or "")
    assert run.events == 100


def test_a_committed_log_that_cannot_be_read_leaves_a_run_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = LogTail.read

    def loses_its_place(tail: LogTail, disk: MemoryDisk, begin: int, below: int) -> list[LogBatch]:
        return read(tail, disk, begin, below) if begin < 20 else []

    monkeypatch.setattr(LogTail, "read", loses_its_place)
    settings = {
        "metadata.max.retention.bytes": "1",
        "metadata.log.segment.bytes": "1000",
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "krucible.log.clean.interval.ms": "500",
    }
    run = run_of(1, "none", settings=settings)

    assert run.data.logs["n1"][0].base > 20, "the beginning of the log was to be deleted"
    assert run.verdict is Valid.UNKNOWN
    (reason,) = [each for each in run.judgement.reasons["system"] if "could be read" in each]
    assert reason.startswith("observers: of the committed log, ")


def test_a_seed_that_ends_its_process_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    do = Trial.do

    def deadly(trial: Trial) -> dict[str, Any]:
        if trial.seed == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(trial)

    monkeypatch.setattr(Trial, "do", deadly)
    pinned = {"time_limit_s": 4.0}
    store = Store(tmp_path)
    batch = sim_command._Batch([Trial(n, pinned, False, False, store) for n in range(1, 8)])
    batch.run(Local(2), stop=False, loud=False)
    assert sorted(result["seed"] for result in batch.results) == list(range(1, 8))
    assert batch.exit_code == EXIT_HARNESS
    (failing,) = batch.failing
    assert failing["seed"] == 3
    assert failing["harness_reasons"] == ["its process was killed by signal 9"]
    assert batch.figures(1.0)["broken"] == [3]
    assert meant(failing["store"], {}, None, Store(tmp_path)).spec.seed == 3


def test_a_system_that_lives_elsewhere_cannot_be_simulated() -> None:
    with pytest.raises(UsageError, match="cannot be simulated"):
        Plan.simulated(RunSpec(1, system="atom"))


def test_lines_of_progress_come_early_and_then_once_a_minute() -> None:
    assert list(islice(sim_command._moments(100.0), 6)) == [105, 115, 130, 160, 220, 280]
