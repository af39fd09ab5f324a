"""``krucible check``: many files, stored runs, precedence of exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.history.ops import History, HistoryWriter, Op
from harness.registry import models
from harness.sessions.live import judge_run
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.sessions.swarm import draw
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from tests.support.commands.command import BAD_END, GOOD, GOOD_END, krucible, write_history

VERDICTS = {"good": "valid", "bad": "invalid", "open": "unknown", "none": "unreadable"}
# A process whose read began when its write ended, to the nanosecond: before or after it?
TIED = (
    (0, "invoke", "write", 1),
    (0, "ok", "write", 1),
    (0, "invoke", "read", None),
    (0, "ok", "read", None),
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    tied = write_history(tmp_path / "open.jsonl", *TIED)
    tied.write_text(tied.read_text().replace('"time_ns": 2', '"time_ns": 1'))
    return {
        "good": write_history(tmp_path / "good.jsonl", *GOOD_END),
        "bad": write_history(tmp_path / "bad.jsonl", *BAD_END),
        "open": tied,
        "none": tmp_path / "none.jsonl",
    }


def stored(tmp_path: Path, *ops: tuple[int, str, str, object]) -> RunDir:
    """A run of the atom system that left this history behind."""
    run = Store(tmp_path / "store").new_run(RunSpec(seed=5, system="atom"))
    run.write_schedule(())
    writer = HistoryWriter(run.history)
    for index, (process, type_, f, value) in enumerate(ops):
        writer.append(Op(index, index, process, type_, f, value, key="r0", node="n1"))  # type: ignore[arg-type]
    writer.close()
    return run


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("good", 0),
        ("bad", 1),
        ("open", 2),
        ("none", 254),
        ("none good", 254),
        ("open good", 2),
        ("open none good", 254),
        ("none open bad good", 1),
    ],
)
def test_each_file_is_judged_whatever_the_others_are(
    names: str, code: int, files: dict[str, Path]
) -> None:
    wanted = names.split()
    ended = krucible("check", *(files[name] for name in wanted), "--json")
    assert ended.code == code
    assert [row["path"] for row in ended.json] == [str(files[name]) for name in wanted]
    assert [row["verdict"] for row in ended.json] == [VERDICTS[name] for name in wanted]
    assert ended.err.count("krucible: ") == wanted.count("none")


def test_people_see_a_line_for_each_verdict_and_complaint(files: dict[str, Path]) -> None:
    ended = krucible("check", *files.values())
    lines = ended.out.splitlines()
    assert lines[0].split() == ["history", "verdict", "found"]
    assert [line.split()[1] for line in lines[1:]] == ["valid", "invalid", "unknown"]
    assert "it needs 2" in lines[2]
    assert ended.err == f"krucible: {files['none']}: cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", ":1: "),
        (b"\x7fELF\x02\xff\xfe\x00", "not text"),
        (b"{}\n", "not an op"),
        (b'{"type":"invoke"}\n', "not an op"),
        (b"hello\n", "cannot tell the format"),
        (b'{"process":0,"type":"invoke","f":"fly"}\n', "no model is known for ops fly"),
        (b'{"process":0,"type":"ok","f":"read","value":1}\n', "has no invocation"),
        (b"[" * 100_000, ":1"),
        (b'{"a":' + b"[" * 100_000 + b"\n", ":1"),
    ],
)
def test_what_is_no_history_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "h"
    path.write_bytes(content)
    ended = krucible("check", path)
    assert ended.code == 254
    assert str(path) in ended.complaint
    assert says in ended.complaint


def test_model_and_initial_value_decide(tmp_path: Path) -> None:
    path = write_history(tmp_path / "h.jsonl", (0, "invoke", "read", None), (0, "ok", "read", 7))
    assert krucible("check", path).code == 1
    assert krucible("check", path, "--initial", "7").code == 0
    assert krucible("check", path, "--model", "cas-register", "--initial", 7).code == 0
    ended = krucible("check", path, "--model", "mutex")
    assert ended.code == 254
    assert str(path) in ended.complaint
    assert krucible("check", path, "--format", "edn").code == 254


def test_a_history_cut_by_a_kill_is_judged(tmp_path: Path) -> None:
    path = write_history(tmp_path / "h.jsonl", *GOOD_END)
    for cut in (path.stat().st_size - 1, path.stat().st_size - 30):
        path.write_bytes(path.read_bytes()[:cut])
        ended = krucible("check", path, "--json")
        assert ended.code == 0
        assert ended.json[0]["verdict"] == "valid"


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    ended = krucible("check", tmp_path)
    assert ended.code == 254
    assert "no spec.json in it" in ended.complaint


@pytest.mark.parametrize("spec", ["{", "[]", '{"seed":1}', '{"seed":1,"nemeses":[],"voters":"3"}'])
def test_a_run_with_a_broken_spec_is_named(tmp_path: Path, spec: str) -> None:
    (tmp_path / "spec.json").write_text(spec)
    ended = krucible("check", tmp_path)
    assert ended.code == 254
    assert "not the spec of a run" in ended.complaint


def test_a_stored_run_is_judged_anew_and_its_history_alone_by_the_model(tmp_path: Path) -> None:
    run = stored(tmp_path, *BAD_END)
    ended = krucible("check", run.path, "--json")
    assert ended.code == 1
    assert ended.json[0]["anomalies"][0]["invariant"] == "linearizability"
    assert run.results.is_file()
    assert run.report.is_file()
    run.results.unlink()
    run.report.unlink()
    assert krucible("check", run.history).code == 1
    assert not run.results.exists()
    assert not run.report.exists()


def test_a_run_without_enough_ops_is_unknown(tmp_path: Path) -> None:
    run = stored(tmp_path, *GOOD)
    ended = krucible("check", run.path)
    assert ended.code == 2
    assert "unknown" in ended.out


def test_a_harness_that_broke_is_remembered(tmp_path: Path) -> None:
    run = stored(tmp_path, *GOOD_END)
    assert judge_run(run, crash="could not stop n1").exit_code == 255
    ended = krucible("check", run.path, "--json")
    assert ended.code == 255
    assert ended.json[0]["verdict"] == "unknown"


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A stored seed of the swarm: no fault was asked for, and it is judged by liveness, too."""
    plan = Plan.simulated(draw(5, {"time_limit_s": 1.0, "workload": "register"}), asked_for=False)
    return save(simulate(plan), Store(tmp_path_factory.mktemp("store")))


def test_a_stored_seed_is_judged_again_by_what_judged_it(seed: RunDir) -> None:
    before = json.loads(seed.results.read_bytes())
    assert krucible("check", seed.path).code == before["exit_code"] == 0
    after = json.loads(seed.results.read_bytes())
    assert [each["checker"] for each in after["results"]] == [
        each["checker"] for each in before["results"]
    ]
    assert after["trace_sha256"] == before["trace_sha256"]


def test_a_simulation_that_could_not_go_on_stays_invalid(seed: RunDir) -> None:
    results = json.loads(seed.results.read_bytes())
    anomaly = {"invariant": "L12", "message": "the simulation could not go on: it spins"}
    stalled = {"checker": "stalled", "valid": "invalid", "anomalies": [anomaly], "reason": None}
    seed.results.write_text(json.dumps({**results, "results": [*results["results"], stalled]}))
    for _ in range(2):
        ended = krucible("check", seed.path, "--json")
        assert ended.code == 1
        assert ended.json[0]["anomalies"][0]["message"] == anomaly["message"]


@pytest.mark.parametrize("how", ["latest", "id", "seed", "name"])
def test_a_run_of_the_store_is_named_as_in_other_commands(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path, *BAD_END)
    name = {"latest": "latest", "id": run.id, "seed": str(run.seed), "name": run.path.name}[how]
    ended = krucible("check", name, "--store", run.root, "--json")
    assert (ended.code, [row["path"] for row in ended.json]) == (1, [str(run.path)])
    monkeypatch.chdir(tmp_path)  # its store is the default
    assert krucible("check", name).code == 1


def test_what_is_there_is_meant_before_a_run_that_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path, *BAD_END)
    monkeypatch.chdir(tmp_path)
    write_history(tmp_path / str(run.seed), *GOOD_END)
    assert krucible("check", run.seed).code == 0


def test_who_names_no_file_and_no_run_hears_of_both_and_stops_no_other(
    files: dict[str, Path], tmp_path: Path
) -> None:
    run = stored(tmp_path, *GOOD_END)
    for name, why in (("nobody", "the id or name 'nobody'"), ("99", "the seed 99: it has 5")):
        ended = krucible("check", name, files["bad"], "--store", run.root, "--json")
        assert ended.code == 1
        assert [row["verdict"] for row in ended.json] == ["unreadable", "invalid"]
        assert f"krucible: {name}: there is no such file, and no such run: " in ended.err
        assert why in ended.err
    ended = krucible("check", "latest", "--store", tmp_path / "empty")
    assert ended.code == 254
    assert "there is no run yet" in ended.complaint


def test_options_for_files_are_refused_with_a_run(tmp_path: Path) -> None:
    run = stored(tmp_path, *GOOD_END)
    ended = krucible("check", run.path, "--model", "register")
    assert ended.code == 254
    assert "leave them out" in ended.complaint


def test_a_torn_stored_history_is_judged(tmp_path: Path) -> None:
    run = stored(tmp_path, *BAD_END)
    with run.history.open("ab") as file:
        file.write(b'{"index":9,"ti')
    assert krucible("check", run.path).code == 1


# ------------------------------------------------------------------ many at once


def test_a_folder_stands_for_all_histories_and_runs_in_it(tmp_path: Path) -> None:
    run = stored(tmp_path, *BAD_END)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    write_history(deep / "good.jsonl", *GOOD_END)
    (deep / "notes.md").write_text("no history")
    rows = krucible("check", tmp_path, "--json").json
    assert [(row["path"], row["verdict"]) for row in rows] == [
        (str(deep / "good.jsonl"), "valid"),
        (str(run.path), "invalid"),
    ]


def test_hidden_folders_are_skipped_and_told(files: dict[str, Path], tmp_path: Path) -> None:
    """What lies in ``.venv`` is no history, unless it is named."""
    folder = tmp_path / "folder"
    for name in ("a", ".venv/lib", ".git"):
        (folder / name).mkdir(parents=True)
    shutil.copy(files["good"], folder / "a" / "good.jsonl")
    (folder / ".venv" / "lib" / "top_level.txt").write_text("krucible\n")
    ended = krucible("check", folder, "--json")
    assert (ended.code, [row["path"] for row in ended.json]) == (0, [str(folder / "a/good.jsonl")])
    assert ended.err == (
        f"skipped hidden folders: {folder}/.git, {folder}/.venv (name one to judge what is in it)\n"
    )
    named = krucible("check", folder / ".venv", "--json")
    assert [Path(row["path"]).name for row in named.json] == ["top_level.txt"]


def test_a_pattern_stands_for_what_it_matches(files: dict[str, Path], tmp_path: Path) -> None:
    rows = krucible("check", tmp_path / "[go]*.jsonl", "--json").json
    assert [row["path"] for row in rows] == [str(files["good"]), str(files["open"])]
    nothing = krucible("check", tmp_path / "*.edn")
    assert nothing.code == 254
    assert "*.edn" in nothing.complaint


def test_one_bad_line_says_where_and_stops_no_other(tmp_path: Path) -> None:
    good = write_history(tmp_path / "a.jsonl", *GOOD_END)
    bad = write_history(tmp_path / "b.jsonl", *GOOD_END)
    bad.write_text(bad.read_text() + '{"process": 0, "type": "maybe", "f": "read"}\n')
    ended = krucible("check", good, bad)
    assert ended.code == 254
    lines = len(bad.read_text().splitlines())
    assert f"{bad}:{lines}: not an op: type is 'maybe', want invoke, ok, fail or info" in ended.err
    assert f"{good}  valid" in ended.out


def test_junit_has_a_case_for_each_history(files: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    names = ("good", "bad", "open", "none")
    assert krucible("check", *(files[name] for name in names), "--junit", report).code == 1
    suite = ElementTree.fromstring(report.read_bytes())[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "2")
    kinds = {case.get("name"): [part.tag for part in case] for case in suite}
    assert kinds == {
        str(files["good"]): [],
        str(files["bad"]): ["failure"],
        str(files["open"]): ["error"],
        str(files["none"]): ["error"],
    }


def test_a_report_that_cannot_be_written_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    ended = krucible("check", files["good"], "--junit", tmp_path / "no" / "junit.xml")
    assert ended.code == 254
    assert "junit.xml: the report cannot be written" in ended.err


# ------------------------------------------------------------------ transactions and logs

SKEW = (
    "{:process 0 :type :invoke :value [[:r x nil] [:append y 1]]}\n"
    "{:process 1 :type :invoke :value [[:r y nil] [:append x 1]]} ; both at once\n"
    "{:process :nemesis :type :info :f :start-partition :value {:n1 #{:n2}}}\n"
    "{:process 0 :type :ok :value [[:r x []] [:append y 1]]}\n"
    "{:process 1 :type :ok :value [[:r y []] [:append x 1]]}\n"
    "{:process 2 :type :invoke :value [[:r x] [:r y]]}\n"
    "{:process 2 :type :ok :value [[:r x [1]] [:r y [1]]]}\n"
)


@pytest.mark.parametrize(
    ("model", "code"),
    [(None, 1), ("strict-serializable", 1), ("serializable", 1), ("snapshot-isolation", 0)],
)
def test_a_consistency_model_says_what_is_forbidden(
    tmp_path: Path, model: str | None, code: int
) -> None:
    path = tmp_path / "skew.edn"
    path.write_text(SKEW)
    ended = krucible("check", path, "--json", *(["--consistency-model", model] if model else []))
    assert ended.code == code
    assert ended.json[0]["stats"]["anomalies"] == {"G2-item": 1}
    assert ended.json[0]["stats"]["model"] == "list-append"
    assert ("G2-item: no order" in ended.json[0]["found"]) is bool(code)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--consistency-model", "serialisable"], "did you mean 'serializable'"),
        (["--consistency-model", "serializable", "--model", "set"], "leave one out"),
        (["--model", "lists"], "no model is called 'lists'"),
    ],
)
def test_models_that_are_none_are_named(tmp_path: Path, options: list[str], says: str) -> None:
    path = tmp_path / "skew.edn"
    path.write_text(SKEW)
    ended = krucible("check", path, *options)
    assert ended.code == 254
    assert says in ended.complaint


def test_a_model_of_an_older_shape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        """Judges by itself, and knows no limit of memory."""

        fs = frozenset(("read", "write"))
        initial = None

        def check(self, history: History, *, conventions: object, time_limit_s: float) -> None: ...

    monkeypatch.setitem(models._plugins, "old", Old)
    path = write_history(tmp_path / "good.jsonl", *GOOD_END)
    for jobs in (1, 2):
        ended = krucible("check", path, path, "--model", "old", "--jobs", jobs)
        assert ended.code == 255
        assert "unexpected keyword argument 'memory_limit_bytes'" in ended.complaint
        assert "docs/adding.md" in ended.complaint


def test_sent_and_polled_records_are_judged_as_a_log(tmp_path: Path) -> None:
    path = tmp_path / "kafka.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :send :value [[:send 5 1] [:send 5 2]]}\n"
        "{:process 0 :type :ok :f :send :value [[:send 5 [0 1]] [:send 5 [2 2]]]}\n"
        "{:process 1 :type :invoke :f :poll :value [[:poll]]}\n"
        "{:process 1 :type :ok :f :poll :value [[:poll {5 [[2 2]]}]]}\n"
    )
    ended = krucible("check", path, "--json")
    assert ended.code == 1
    assert set(ended.json[0]["stats"]["anomalies"]) == {"lost-write", "unseen"}


def test_side_by_side_and_alone_say_the_same(files: dict[str, Path], tmp_path: Path) -> None:
    many = [*files.values(), tmp_path / "none.jsonl", *reversed(files.values())] * 5
    alone = krucible("check", *many, "--jobs", 1, "--json")
    together = krucible("check", *many, "--jobs", 3, "--json")
    assert (alone.code, alone.err) == (together.code, together.err)
    assert [row["path"] for row in together.json] == [str(path) for path in many]
    assert without_times(alone.json) == without_times(together.json)


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "stats"} for row in rows]


def test_a_memory_limit_that_is_reached_is_said(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    op = '{"process":0,"type":"%s","f":"txn","value":[["append","x",%d]]}\n'
    path.write_text("".join(op % (type_, n) for n in range(6_000) for type_ in ("invoke", "ok")))
    assert krucible("check", path, "--model", "list-append").code == 0
    ended = krucible("check", path, "--model", "list-append", "--memory-limit", 64, "--json")
    assert ended.code == 2
    assert ended.json[0]["found"] == (
        "the memory limit of 64 MiB ran out; all transactions are open"
    )
