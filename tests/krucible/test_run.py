"""``krucible run``, ``repro`` and ``report`` end to end on the system in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import NodeStartError
from harness.registry import systems
from harness.store.folder import Store
from krucible.arguments import parse_nemeses
from krucible.commands import repro as repro_module
from krucible.program import typed
from tests.support.commands.command import Ended, krucible

ATOM = ("--system", "atom", "--time-limit", "1", "--rate", "400")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRUCIBLE_STATE", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def invalid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """A run with a bug, and its store."""
    store = tmp_path_factory.mktemp("invalid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRUCIBLE_STATE", str(store / "state"))
        bug = ("--set", "atom.bug=lost-write", "--set", "atom.bug-rate=1")
        return krucible("run", *ATOM, *bug, "--seed", 7, "--store", store, "--json"), store


def test_a_healthy_system_is_valid(tmp_path: Path) -> None:
    ended = krucible("run", *ATOM, "--seed", 7, "--store", tmp_path)
    assert ended.code == 0, ended.out + ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "VALID"
    run = Store(tmp_path).resolve("latest")
    assert lines[-2].split() == ["report:", str(run.report)]
    assert lines[-1].endswith(f"krucible repro {run.id} --store {tmp_path}")
    assert run.report.is_file()
    assert "phase main" in ended.err
    assert "Traceback" not in ended.err


def test_a_broken_system_is_invalid_with_anomalies(invalid: tuple[Ended, Path]) -> None:
    ended, store = invalid
    assert ended.code == 1
    found = ended.json
    assert {"verdict", "anomalies", "coverage", "store"} <= set(found)
    assert (found["verdict"], found["exit_code"], found["seed"]) == ("invalid", 1, 7)
    assert found["anomalies"][0]["invariant"] == "linearizability"
    assert found["coverage"] == "valid"
    assert Path(found["store"]).is_relative_to(store)
    results = json.loads((Path(found["store"]) / "results.json").read_bytes())
    assert results["exit_code"] == 1


def test_repro_replays_a_seed(invalid: tuple[Ended, Path]) -> None:
    ended, store = invalid
    again = krucible("repro", 7, "--store", store, "--times", 2, "--json")
    assert again.code == 1
    assert (again.json["reproduced"], again.json["times"]) == (2, 2)
    assert [round(end, 2) for end in again.json["interval_95"]] == [0.34, 1.0]
    assert again.json["same_bytes"] is None, "live runs differ"
    assert again.json["run"] == ended.json["store"]
    for path in again.json["stores"]:
        spec = json.loads((Path(path) / "spec.json").read_bytes())
        assert spec == json.loads((Path(ended.json["store"]) / "spec.json").read_bytes())


def test_repro_counts_only_what_broke_alike(
    invalid: tuple[Ended, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, store = invalid
    seen = {"anomalies": [{"invariant": "S1"}]}
    monkeypatch.setattr(repro_module, "execute", lambda _: 1)
    monkeypatch.setattr(repro_module, "show", lambda _: None)
    monkeypatch.setattr("harness.sessions.live.Session.summary", lambda _: seen)
    again = krucible("repro", ended.json["store"], "--store", store)
    assert again.code == 1
    assert again.out == "0/1 reproduced (broke S1 in 1)\n"


def test_a_replay_that_cannot_start_does_not_end_the_others(
    invalid: tuple[Ended, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, store = invalid

    def execute(_: object) -> int:
        raise NodeStartError("n1 does not answer")

    monkeypatch.setattr(repro_module, "execute", execute)
    again = krucible("repro", ended.json["store"], "--store", store, "--times", 2)
    assert again.code == 255
    assert again.out == "0/2 reproduced\n"
    assert again.err.count("krucible: n1 does not answer") == 2


def test_report_writes_the_page_and_judges_when_that_was_not_done(
    invalid: tuple[Ended, Path],
) -> None:
    ended, store = invalid
    path = Path(ended.json["store"])
    (path / "report.html").unlink()
    again = krucible("report", path, "--store", store, "--json")
    assert again.code == 0  # though the run is invalid
    assert again.json == {"report": str(path / "report.html")}
    before = (path / "report.html").read_bytes()
    (path / "results.json").unlink()
    assert krucible("report", path).out == f"{path / 'report.html'}\n"
    assert json.loads((path / "results.json").read_bytes())["exit_code"] == 1
    assert before.startswith(b"<!")


def test_faults_are_the_default_where_there_is_something_to_break() -> None:
    assert parse_nemeses(None, systems.get("kraft")) == ("all",)
    assert parse_nemeses(None, systems.get("atom")) == ("none",)
    assert parse_nemeses(" kill, pause ,", systems.get("atom")) == ("kill", "pause")


def test_faults_that_cannot_happen_leave_the_coverage_unknown(tmp_path: Path) -> None:
    ended = krucible("run", *ATOM, "--nemesis", "pause", "--store", tmp_path)
    assert ended.code == 2
    assert ended.out.startswith("UNKNOWN (coverage)\n")
    assert "pause was never installed: skipped, system 'atom' cannot freeze its nodes" in ended.out


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_signal_ends_a_run_in_order(tmp_path: Path, background: bool) -> None:
    argv = [sys.executable, "-c", "from krucible.app import main; main()"]
    argv += ["run", "--system", "atom", "--time-limit", "60", "--store", str(tmp_path / "store")]
    if background:  # as `krucible run &` in a script: the shell has it ignore SIGINT
        argv = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *argv]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            if "phase main" in line:
                break
        os.kill(process.pid, signal.SIGTERM)  # which ends it as SIGINT does
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.endswith("phase close\nkrucible: interrupted\n")
    assert out.startswith(("VALID\n", "UNKNOWN"))
    assert Store(tmp_path / "store").resolve("latest").report.is_file()
    assert not list((tmp_path / "state").iterdir())  # nothing is left to heal


def test_nothing_is_imported_from_the_folder_that_it_is_called_in(tmp_path: Path) -> None:
    """Also by the processes that it begins: relay, watchdog, nodes and their disks."""
    for name in ("harness", "node", "krucible", "nemesis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')\n")
    for name in ("random.py", "json.py", "asyncio.py", "msgspec.py"):
        (tmp_path / name).write_text("raise SystemExit('not this one')\n")
    options = "--voters 1 --observers 1 --nemesis disk-slow-fsync,kill --time-limit 6"
    done = subprocess.run(
        [*typed().argv, "run", *options.split(), "--seed", "1", "--store", tmp_path / "store"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "disk-slow-fsync installed" in done.stderr
    assert "not this one" not in done.stdout + done.stderr
    logs = [path.read_text(errors="replace") for path in (tmp_path / "store").rglob("*.log")]
    assert logs
    assert not [log for log in logs if "not this one" in log]
