"""``krucible repro``: a run, a seed or a schedule again; simulated ones to the byte."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.faults import schedule
from harness.nightly.proportion import wilson
from harness.sessions.live import prepare
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.spec import RunSpec
from harness.store.folder import Store
from krucible.arguments import KAFKA_HOME, KAFKA_VERSION
from krucible.commands import repro as repro_module
from krucible.commands.repro import Replay, report
from krucible.meant import Meant, meant
from tests.support.commands.command import krucible

SPEC = RunSpec(
    3,
    env="sim",
    nemeses=("kill",),
    observers=0,
    rate_hz=5.0,
    concurrency=2,
    time_limit_s=6.0,
    mutant="forgotten-vote",
)
KILL = {"id": 0, "nemesis": "kill", "at_ms": 1000, "duration_ms": 500, "params": {"target": "all"}}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored simulation that broke S3."""
    run = simulate(Plan.simulated(SPEC, [schedule.fault_from_json(KILL)]))
    assert "S3" in {anomaly.invariant for anomaly in run.judgement.anomalies}
    return save(run, Store(tmp_path_factory.mktemp("store"))).path


def results_of(path: Path) -> Any:
    return json.loads((path / "results.json").read_bytes())


def options(spec: RunSpec) -> list[str]:
    """The options of the command that pin a spec."""
    return [
        *("--voters", str(spec.voters), "--observers", str(spec.observers)),
        *("--workload", spec.workload, "--time-limit", str(spec.time_limit_s)),
        *("--rate", str(spec.rate_hz), "--concurrency", str(spec.concurrency)),
        *("--mutant", str(spec.mutant)),
    ]


# --------------------------------------------------------------------------- runs


def test_a_simulated_run_is_the_same_bytes_however_often(failing: Path, tmp_path: Path) -> None:
    ended = krucible("repro", failing, "--times", 3, "--store", tmp_path)
    assert ended.code == 1
    assert "(the same bytes again)" in ended.out
    assert ended.out.splitlines()[-1].startswith("3/3 reproduced (broke ")
    assert ended.out.endswith("; same bytes)\n")
    assert len(Store(tmp_path).runs()) == 1, "what is the same is stored once"


def test_bytes_that_are_not_those_of_the_stored_run_are_told(failing: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(failing, copy)
    results = {**results_of(failing), "trace_sha256": "0" * 64}
    (copy / "results.json").write_text(json.dumps(results))
    ended = krucible("repro", copy, "--store", tmp_path)
    assert ended.code == 1
    assert "1/1 reproduced" in ended.out
    assert "differs from the stored run: was the code changed since?" in ended.out


def test_replays_that_differ_are_a_broken_harness(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differing(*_: object, **__: object) -> Any:
        yield Replay(str(failing), 0, trace_sha256="a")
        yield Replay(str(failing), 0, trace_sha256="b")

    monkeypatch.setattr(repro_module, "_simulated", differing)
    ended = krucible("repro", failing, "--times", 2, "--store", tmp_path)
    assert ended.code == 255
    assert "NOT DETERMINISTIC" in ended.out


def test_live_replays_are_told_with_their_interval() -> None:
    live = Meant("7", replace(SPEC, env="local"), (), results={"anomalies": [{"invariant": "S1"}]})
    broke = [Replay(None, 1, frozenset({"S1"})), Replay(None, 1, frozenset({"S3"}))]
    told = report(live, [*broke, Replay(None, 0), Replay(None, 255)])
    assert (told["reproduced"], told["times"]) == (1, 4)
    assert told["interval_95"] == wilson(1, 3), "a replay that broke says nothing"
    assert (told["same_bytes"], told["same_as_before"]) == (None, None)
    assert report(live, [Replay(None, 255)])["interval_95"] is None


def test_live_replays_go_side_by_side(tmp_path: Path) -> None:
    live = {"env": "local", "voters": 1, "nemeses": ["none"], "mutant": None}
    short = {"time_limit_s": 2.0, "rate_hz": 50.0}
    (tmp_path / "spec.json").write_text(json.dumps({**SPEC.to_json(), **live, **short}))
    (tmp_path / "schedule.jsonl").write_text("")
    ended = krucible("repro", tmp_path, "--times", 3, "--jobs", 2, "--store", tmp_path / "store")
    assert (ended.code, ended.out.splitlines()[-1][:14]) == (0, "0/3 reproduced")
    told = [line for line in ended.err.splitlines() if line.startswith("replay")]
    assert told[:2] == ["replay 1 of 3 begins", "replay 2 of 3 begins"]
    assert "->" in told[2], "the third waits until one is over"
    assert len(Store(tmp_path / "store").runs()) == 3


def test_jobs_are_of_replays_that_can_go_side_by_side(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = krucible("repro", failing, "--jobs", 2, "--store", tmp_path)
    assert (ended.code, "--jobs is for live replays" in ended.complaint) == (254, True)
    hosts = tmp_path / "hosts"
    hosts.write_text("a.test\nb.test\nc.test\n")
    monkeypatch.setenv("KRUCIBLE_HOSTS", "")
    spec = {**SPEC.to_json(), "env": "ssh", "nemeses": ["none"], "mutant": None}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "schedule.jsonl").write_text("")
    ended = krucible("repro", tmp_path, "--hosts", hosts, "--times", 2, "--jobs", 2)
    assert (ended.code, "ssh has room for one run at a time" in ended.complaint) == (254, True)


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [(0, 1, 0.0, 0.793), (10, 10, 0.722, 1.0), (0, 10, 0.0, 0.278), (50, 100, 0.404, 0.596)],
)
def test_the_interval_is_wilsons(hits: int, tries: int, low: float, high: float) -> None:
    assert wilson(hits, tries) == pytest.approx((low, high), abs=0.0005)


# --------------------------------------------------------------------------- seeds


def test_a_seed_is_what_sim_makes_of_it(tmp_path: Path) -> None:
    pins = ("--time-limit", 5, "--rate", 5, "--voters", 3, "--observers", 0)
    simulated = krucible("sim", "--seed", 5, *pins, "--save", "--store", tmp_path / "sim", "--json")
    stored = Path(simulated.json["store"])
    assert simulated.json["verdict"] == "valid"
    assert (stored / "schedule.jsonl").is_file()
    again = krucible("repro", "--seed", 5, *pins, "--store", tmp_path / "repro", "--json")
    assert again.code == 0
    (path,) = again.json["stores"]
    assert results_of(Path(path))["trace_sha256"] == simulated.json["trace_sha256"]
    played = (Path(path) / "schedule.jsonl").read_text()
    assert played == (stored / "schedule.jsonl").read_text() != ""
    of_run = krucible("repro", stored, "--store", tmp_path / "repro", "--json").json
    assert of_run["same_as_before"] is True


# --------------------------------------------------------------------------- schedules


def test_a_schedule_with_its_spec_is_a_run(failing: Path, tmp_path: Path) -> None:
    """A folder with no more than the two files that say what to do."""
    for name in ("spec.json", "schedule.jsonl"):
        shutil.copy(failing / name, tmp_path / name)
    for what in (tmp_path, tmp_path / "schedule.jsonl"):
        ended = krucible("repro", what, "--store", tmp_path / "store", "--json")
        assert (ended.code, ended.json["reproduced"]) == (1, 1)
        found = results_of(Path(ended.json["stores"][0]))["trace_sha256"]
        assert found == results_of(failing)["trace_sha256"]


def test_an_edited_schedule_beside_a_run_is_played_instead_of_its_own(
    failing: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(failing, copy)
    (copy / "none.jsonl").write_text("")
    told = krucible("repro", copy / "none.jsonl", "--store", tmp_path, "--json").json
    assert (Path(told["stores"][0]) / "schedule.jsonl").read_text() == ""
    assert told["same_as_before"] is None


def test_a_bare_schedule_is_played_with_the_options(failing: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    shutil.copy(failing / "schedule.jsonl", file)
    pins = [*options(SPEC), "--store", str(tmp_path / "store"), "--json"]
    ended = krucible("repro", file, "--seed", 8, *pins)
    assert (ended.code, ended.json["reproduced"]) == (1, 1)
    run = Path(ended.json["stores"][0])
    assert (run / "schedule.jsonl").read_bytes() == file.read_bytes()
    spec = json.loads((run / "spec.json").read_bytes())
    assert (spec["seed"], spec["voters"], spec["mutant"]) == (8, 3, SPEC.mutant)


def test_a_schedule_asks_for_its_own_nemeses_only(tmp_path: Path) -> None:
    """Some families are called as one of their nemeses is."""
    for played in (
        Plan.simulated(SPEC, [schedule.fault_from_json(KILL)]).spec,
        prepare(
            replace(SPEC, env="local", system="kraft"),
            Store(tmp_path),
            faults=[schedule.fault_from_json(KILL)],
        ).spec,
    ):
        assert played.nemeses == ("kill",)


def test_a_fault_that_breaks_the_harness_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({**KILL, "params": {"target": "bogus"}}))
    pins = [*options(SPEC), "--store", tmp_path]
    why = "no target is called 'bogus'; there are: leader, follower"
    ended = krucible("repro", file, *pins)
    assert ended.code == 255
    assert "harness: harness.errors.HarnessError: nemesis kill: inject of fault 0" in ended.out
    assert why in ended.out
    ended = krucible("shrink", file, "--jobs", 1, *pins)
    assert ended.code == 2
    assert "not reproduced: the simulation broke: harness.errors.HarnessError" in ended.complaint
    assert why in ended.complaint


def test_a_schedule_can_be_shrunk(failing: Path, tmp_path: Path) -> None:
    for name in ("spec.json", "schedule.jsonl"):
        shutil.copy(failing / name, tmp_path / name)
    ended = krucible(
        "shrink", tmp_path, "--tries", 2, "--jobs", 1, "--store", tmp_path / "store", "--json"
    )
    assert (ended.code, ended.json["reproduced"]) == (1, True)
    again = krucible("repro", ended.json["store"], "--store", tmp_path / "store", "--json")
    assert (again.json["reproduced"], again.json["same_as_before"]) == (1, True)


@pytest.mark.parametrize(
    ("line", "argv", "what"),
    [
        ('{"id": 0', "", "mine.jsonl:1: not a fault: "),
        ("\n[1]\n", "", "mine.jsonl:2: not a fault: want an object"),
        ({"at_ms": -1}, "", "mine.jsonl:1: not a fault: at_ms is -1"),
        ({"nemesis": "kil"}, "", "no nemesis is called 'kil': did you mean"),
        ({"params": {"links": [["n9", "n1"]]}}, "--voters 3 --observers 2", "names n9, and the"),
        ({"at_ms": 70_000}, "--time-limit 60", "begins at 70000 ms, when the run is over (60 s)"),
        ({}, "--nemesis kill", "leave --nemesis out"),
        ({}, "--mutant no-such", "no mutant is called 'no-such'"),
    ],
)
@pytest.mark.parametrize("verb", ["repro", "shrink"])
def test_bad_schedules_are_told(line: Any, argv: str, what: str, verb: str, tmp_path: Path) -> None:
    text = line if isinstance(line, str) else json.dumps({**KILL, **line})
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    ended = krucible(verb, file, *argv.split(), "--store", tmp_path)
    assert ended.code == 254
    assert what in ended.complaint


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ("nowhere", "has the id or name 'nowhere', and it is no run's folder"),
        ("nowhere.jsonl", "has the id or name 'nowhere.jsonl'"),
        ("7", "has the seed 7: the store is empty; to simulate that seed: krucible repro --seed 7"),
        ("", "name a run (id, folder or latest) or a schedule; or simulate a seed"),
        ("--seed 7 --mutant none-such", "no mutant is called"),
        ("--seed 99999999999999999999", "--seed"),
    ],
)
def test_bad_arguments_are_told(argv: str, what: str, tmp_path: Path) -> None:
    ended = krucible("repro", *argv.split(), "--store", tmp_path)
    assert ended.code == 254
    assert what in ended.complaint


def test_a_stored_run_has_its_own_options(failing: Path, tmp_path: Path) -> None:
    for options in (("--voters", 3), ("--seed", 3)):
        for verb in ("repro", "shrink"):
            ended = krucible(verb, failing, *options, "--store", tmp_path)
            assert ended.code == 254
            assert "a stored run has its own seed and options" in ended.complaint
            assert f"krucible {verb} --seed 3" in ended.complaint


def test_a_run_is_replayed_on_another_release_of_kafka_only(failing: Path, tmp_path: Path) -> None:
    """The release takes the place of the one in its spec; it is no release of our node's."""
    store = Store(tmp_path)
    settings = {KAFKA_VERSION: "4.1.2", "a.setting": "1"}
    of_kafka = replace(SPEC, system="kafka", mutant=None, settings=settings)
    copy = tmp_path / "copy"
    shutil.copytree(failing, copy)
    (copy / "spec.json").write_text(json.dumps(of_kafka.to_json()))
    found = meant(str(copy), {"settings": {KAFKA_VERSION: "4.3.1"}}, None, store)
    assert found.spec.settings == {KAFKA_VERSION: "4.3.1", "a.setting": "1"}
    assert found.trace_sha256 is None, "other bytes are no surprise"
    built = meant(str(copy), {"settings": {KAFKA_HOME: "/somewhere"}}, None, store)
    assert built.spec.settings == {KAFKA_HOME: "/somewhere", "a.setting": "1"}
    with pytest.raises(UsageError, match="a stored run has its own seed and options"):
        meant(str(copy), {"settings": {KAFKA_VERSION: "4.3.1", "a.setting": "2"}}, None, store)
    ended = krucible("repro", failing, "--kafka-version", "4.3.1", "--store", tmp_path)
    assert (ended.code, "krucible.kafka.version" in ended.complaint) == (254, True)


def test_a_stopped_simulation_goes_on_when_that_is_asked_for(failing: Path, tmp_path: Path) -> None:
    stopped = results_of(failing)["stopped"]
    ended = krucible("repro", failing, "--go-on", "--store", tmp_path, "--json")
    told = ended.json
    assert (ended.code, told["reproduced"], told["same_as_before"]) == (1, 1, None)
    longer = Path(told["stores"][0])
    assert (stopped is not None, results_of(longer)["stopped"]) == (True, None)
    assert (longer / "history.jsonl").stat().st_size > (failing / "history.jsonl").stat().st_size


def test_a_live_run_has_no_end_to_go_on_from(failing: Path, tmp_path: Path) -> None:
    spec = {**SPEC.to_json(), "env": "local"}
    copy = tmp_path / "copy"
    shutil.copytree(failing, copy)
    (copy / "spec.json").write_text(json.dumps(spec))
    ended = krucible("repro", copy, "--go-on", "--store", tmp_path)
    assert ended.code == 254
    assert "ran on local; only a simulation ends early" in ended.complaint


def test_a_spec_that_cannot_be_run_is_told(failing: Path, tmp_path: Path) -> None:
    shutil.copy(failing / "schedule.jsonl", tmp_path / "schedule.jsonl")
    spec = json.loads((failing / "spec.json").read_bytes())
    (tmp_path / "spec.json").write_text(json.dumps({**spec, "voters": 0}))
    assert "voters is 0, want 1 to 7" in krucible("repro", tmp_path).complaint
    (tmp_path / "spec.json").write_text("{")
    assert "spec.json: not the spec of a run" in krucible("repro", tmp_path).complaint
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert "has a seed; change it there" in krucible("repro", tmp_path, "--seed", 4).complaint
