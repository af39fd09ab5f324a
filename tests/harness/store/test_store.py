"""The store: names, atomic writes, finding runs, and reading runs that were cut short."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.contracts.evidence import LogBatch
from harness.contracts.nemesis import Fault
from harness.errors import HistoryFormatError, UsageError
from harness.history.events import COLLECTING
from harness.history.ops import HistoryWriter, Op
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store, safe_name, write_json
from harness.store.origin import Origin
from harness.store.reading import load_results, load_run, open_run

SPEC = RunSpec(seed=42, system="atom", nemeses=("kill",), settings={"a": "b"})
NOON = datetime(2026, 1, 2, 12, 0, 0, 5_000, tzinfo=UTC)
FAULT = Fault(0, "kill", 1, 2, {"target": "leader"}, 0.5)
BATCH = LogBatch(0, 1, 3, 77, False, ({"offset": 0, "type": "Topic", "fields": {}},))


def store(tmp_path: Path, moment: datetime = NOON) -> Store:
    return Store(tmp_path / "store", now=lambda: moment, render=lambda path: f"<p>{path.name}")


def full_run(tmp_path: Path) -> RunDir:
    run = store(tmp_path).new_run(SPEC)
    run.write_schedule([FAULT])
    writer = HistoryWriter(run.history)
    writer.append(Op(0, 5, 1, "invoke", "write", 7, "k"))
    writer.append(Op(1, 9, 1, "ok", "write", 7, "k"))
    writer.close()
    for node in ("n1", "n2", "n10"):
        run.events(node).write_text('{"rx_ns":1,"t":"start"}\n')
    run.log("n1").write_text("hello\nworld\n")
    run.write_records("n1", [BATCH])
    run.write_results({"verdict": "valid"})
    run.write_report()
    return run


def test_a_new_run_has_its_place_and_latest_points_at_it(tmp_path: Path) -> None:
    run = store(tmp_path).new_run(SPEC)
    root = tmp_path / "store"
    assert run.path == root / "atom-register" / f"20260102T120000.005Z-42-{run.id}"
    assert (root / "latest").resolve() == run.path
    assert not (root / "latest").readlink().is_absolute()  # the store may be moved
    later = store(tmp_path, NOON.replace(hour=13)).new_run(SPEC)
    assert (root / "latest").resolve() == later.path
    assert run.path.is_dir()


def test_two_runs_at_one_moment_have_two_folders(tmp_path: Path) -> None:
    runs = [store(tmp_path).new_run(SPEC) for _ in range(3)]
    assert len({run.path.name for run in runs}) == len({run.id for run in runs}) == 3
    assert all("-42-" in run.path.name for run in runs)


def test_a_run_has_an_id_of_its_own_that_is_no_seed(tmp_path: Path) -> None:
    there = store(tmp_path)
    for run in (there.new_run(SPEC), there.new_run(RunSpec(seed=-5))):
        assert re.fullmatch(r"[a-z][a-z2-9]{6}", run.id)
        assert there.resolve(run.id).path == run.path
        assert RunDir(run.path).id == run.id, "the folder's name says it"


def test_a_run_of_an_older_store_is_called_by_its_folder(tmp_path: Path) -> None:
    old = tmp_path / "store" / "atom-register" / "20250102T120000.005Z-42"
    old.mkdir(parents=True)
    write_json(old / "spec.json", SPEC.to_json())
    there = store(tmp_path)
    assert there.resolve("42").path == there.resolve(old.name).path == old
    assert RunDir(old).id == old.name
    assert RunDir(old).seed == 42
    assert RunDir(old).read_origin() == Origin("")


def test_a_run_says_who_made_it_and_of_which_run(tmp_path: Path) -> None:
    first = store(tmp_path).new_run(SPEC, Origin("run"))
    again = store(tmp_path).new_run(SPEC, Origin("repro", first.id))
    assert first.read_origin() == Origin("run", None, "2026-01-02T12:00:00.005+00:00")
    assert str(again.read_origin()) == f"repro of {first.id}"
    assert store(tmp_path).new_run(SPEC).read_origin().by == "run"
    assert store(tmp_path).new_run(replace(SPEC, env="sim")).read_origin().by == "sim"
    told = json.loads(first.origin.read_bytes())
    assert (told["id"], told["version"]) == (first.id, 1)


def test_the_words_that_name_a_run_find_it_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Store(Path("store")).new_run(SPEC)
    assert run.words == (run.id, "--store", str(tmp_path / "store"))
    assert Store(Path(run.words[2])).resolve(run.words[0]).path.samefile(run.path)
    alone = shutil.copytree(run.path, tmp_path / "sent" / "here" / run.path.name)
    assert RunDir(alone).words == (str(alone),), "it lies in no store"


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a b", "a\n", ".hidden", "x" * 101])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be part of a file name"):
        safe_name(name)
    with pytest.raises(UsageError):
        store(tmp_path).new_run(RunSpec(seed=1, workload=name))
    with pytest.raises(UsageError):
        RunDir(tmp_path).events(name)


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot store a run.*choose a writable --store"):
        store(tmp_path).new_run(SPEC)


def test_a_whole_run_is_read_back(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    stored = load_run(run.path)
    assert stored.warnings == ()
    assert stored.results == {"verdict": "valid"}
    data = stored.data
    assert data.spec == SPEC
    assert [op.type for op in data.history] == ["invoke", "ok"]
    assert data.faults == (FAULT,)
    assert list(data.events) == ["n1", "n2", "n10"]
    assert data.logs == {"n1": (BATCH,)}
    assert data.output == {"n1": ("hello", "world")}
    assert data.voters == ("n1", "n2", "n3")
    assert data.observers == ("n4", "n5")
    assert run.report.read_text() == f"<p>{run.path.name}"


def test_no_drafts_are_left_behind(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    assert list(run.path.rglob(".*")) == []
    assert [p.name for p in (tmp_path / "store").glob(".*")] == []


def test_json_files_are_stable(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"b": 1, "a": {"d": 1, "c": 2}})
    first = (tmp_path / "x.json").read_bytes()
    write_json(tmp_path / "x.json", {"a": {"c": 2, "d": 1}, "b": 1})
    assert (tmp_path / "x.json").read_bytes() == first


def test_a_run_cut_by_a_kill_is_read_with_warnings(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    run.results.unlink()
    run.schedule.unlink()
    with run.history.open("ab") as file:
        file.write(b'{"index":2,"time')
    with run.events("n2").open("ab") as file:
        file.write(b'{"rx_ns":2,"t":"hw')
    stored = load_run(run.path)
    assert len(stored.data.history) == 2
    assert stored.data.events["n2"] == ({"rx_ns": 1, "t": "start"},)
    assert stored.results is None
    said = "\n".join(stored.warnings)
    assert "history.jsonl: its last line is torn" in said
    assert "schedule.jsonl is missing" in said
    assert "results.json" not in said  # a run that was not judged yet is not damaged
    assert "events/n2.jsonl: 1 lines are no JSON objects, the first is 2" in said


@pytest.mark.parametrize(
    ("mark", "kept", "said"),
    [
        (b"00000000000000000020\n", 1, "the last 2 were left out"),
        (b"", 0, "events/collecting holds no time"),
        (b"00000000000000000099\n", 3, None),
    ],
)
def test_of_a_run_killed_while_it_was_collected_the_last_is_not_judged(
    tmp_path: Path, mark: bytes, kept: int, said: str | None
) -> None:
    """A follower's high watermark may be here without the one of its leader (S15)."""
    run = full_run(tmp_path)
    # stamped when they happened, and not in the order in which they came here
    lines = [b'{"rx_ns":%d,"ts":%d,"t":"hwm"}\n' % (40 - at, at) for at in (19, 20, 21)]
    run.events("n2").write_bytes(b"".join(lines))
    (run.events_dir / COLLECTING).write_bytes(mark)
    stored = load_run(run.path)
    assert [e["ts"] for e in stored.data.events["n2"]] == [19, 20, 21][:kept]
    told = "\n".join(stored.warnings)
    assert said in told if said else "left out" not in told


def test_a_run_killed_at_its_start_is_read(tmp_path: Path) -> None:
    stored = load_run(store(tmp_path).new_run(SPEC).path)
    assert len(stored.data.history) == 0
    assert any("history.jsonl is missing" in warning for warning in stored.warnings)


def test_bad_records_and_results_are_warnings(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    run.records("n1").write_text('{"base":0}\n')
    run.results.write_text("{")
    stored = load_run(run.path)
    assert stored.data.logs == {"n1": ()}
    assert any("records/n1.jsonl: not a batch" in warning for warning in stored.warnings)
    assert any("results.json: not JSON" in warning for warning in stored.warnings)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"spec\.json: not the spec of a run"):
        load_run(tmp_path)
    (tmp_path / "spec.json").write_text('{"seed":1,"nemeses":[],"colour":"red"}')
    with pytest.raises(UsageError, match="colour"):
        load_run(tmp_path)
    (tmp_path / "spec.json").write_text("[]")
    with pytest.raises(UsageError, match="want an object"):
        load_run(tmp_path)


def test_a_damaged_history_is_refused_with_its_place(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    run.history.write_text('{"type":"maybe"}\n{}\n')
    with pytest.raises(HistoryFormatError, match=r"history\.jsonl:1"):
        load_run(run.path)


def test_what_cannot_be_read_is_skipped_and_counted_when_asked_for(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    whole = load_run(run.path, skip_bad=True)
    assert whole == load_run(run.path)
    assert (whole.warnings, whole.lines_bad) == ((), 0)
    first, *others = run.history.read_bytes().splitlines(keepends=True)
    run.history.write_bytes(b"".join([first, b"no op\n", b"\n", *others, b'{"index":']))
    run.schedule.write_bytes(b'{"id":1}\n' + run.schedule.read_bytes())
    run.events("n2").write_bytes(b"[]\n \n" + run.events("n2").read_bytes() + b'{"t')
    with pytest.raises(HistoryFormatError, match=r"history\.jsonl:2: not an op"):
        load_run(run.path)
    stored = load_run(run.path, skip_bad=True)
    assert stored.data.history == whole.data.history
    assert stored.data.faults == whole.data.faults == (FAULT,)
    assert stored.data.events == whole.data.events
    assert stored.lines_bad == 5
    told = "\n".join(stored.warnings)
    assert "history.jsonl: its last line is torn" in told
    assert "lines that could not be read were left out" in told
    assert "history.jsonl:2: not an op" in told
    assert "events/n2.jsonl: 2 lines are no JSON objects, the first is 1" in told


def test_two_faults_with_one_id_are_refused_whatever_is_skipped(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    run.schedule.write_bytes(2 * run.schedule.read_bytes())
    with pytest.raises(UsageError, match="occur more than once"):
        load_run(run.path, skip_bad=True)


def test_an_opened_run_reads_its_files_anew_each_time_and_passes_over_damage(
    tmp_path: Path,
) -> None:
    run = full_run(tmp_path)
    loaded, opened = load_run(run.path).data, open_run(run.path)
    for _ in range(2):
        assert tuple(opened.history) == tuple(loaded.history)
        assert {name: tuple(of) for name, of in opened.events.items()} == loaded.events
        assert {name: tuple(of) for name, of in opened.logs.items()} == loaded.logs
    assert (opened.spec, opened.faults, opened.output) == (SPEC, (FAULT,), loaded.output)
    assert (opened.voters, opened.observers) == (loaded.voters, loaded.observers)
    for path in (run.history, run.events("n2"), run.records("n1")):
        with path.open("ab") as file:
            file.write(b'{"torn')
    run.results.write_text("{")
    assert "results.json: not JSON" in " ".join(load_run(run.path).warnings)
    assert len(list(opened.history)) == 2
    assert len(list(opened.events["n2"])) == 1
    assert opened.logs["n1"][:] == (BATCH,)
    assert load_results(run) is None
    run.results.write_text("[]")
    assert load_results(run) is None
    assert "results.json: no object" in load_run(run.path).warnings


def test_resolve_finds_runs_by_path_name_id_seed_and_latest(tmp_path: Path) -> None:
    early = store(tmp_path).new_run(SPEC)
    other = store(tmp_path, NOON.replace(hour=11)).new_run(RunSpec(seed=7, system="atom"))
    again = store(tmp_path, NOON.replace(hour=13)).new_run(SPEC)
    there = store(tmp_path)
    assert there.resolve(str(early.path)).path == early.path
    assert there.resolve(str(early.path / "spec.json")).path == early.path
    assert there.resolve("atom-register/" + early.path.name).path == early.path
    assert there.resolve(early.path.name).path == early.path
    assert there.resolve(early.id).path == early.path
    assert there.resolve("7").path == other.path
    assert there.resolve("latest").path == again.path
    assert [run.path for run in there.runs()] == [other.path, early.path, again.path]


def test_a_seed_of_several_runs_names_none_of_them(tmp_path: Path) -> None:
    live = store(tmp_path).new_run(SPEC)
    simulated = store(tmp_path).new_run(replace(SPEC, env="sim"))
    replay = store(tmp_path).new_run(replace(SPEC, env="sim"), Origin("repro", simulated.id))
    with pytest.raises(UsageError, match="3 runs have the seed 42") as error:
        store(tmp_path).resolve("42")
    told = str(error.value)
    assert f"{live.id} (atom-register, run)" in told
    assert f"{simulated.id} (atom-register, sim)" in told
    assert f"{replay.id} (atom-register, repro of {simulated.id})" in told
    assert "want one of their ids" in told


def test_what_is_no_run_is_not_the_run_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store(tmp_path).new_run(SPEC)
    monkeypatch.chdir(run.path)
    for text in ("no-such", "43"):
        with pytest.raises(UsageError, match="no run"):
            store(tmp_path).resolve(text)


def test_resolve_says_what_it_looked_for(tmp_path: Path) -> None:
    there = store(tmp_path)
    with pytest.raises(UsageError, match=r"latest: there is no run yet"):
        there.resolve("latest")
    with pytest.raises(UsageError, match=r"no run in .*store has the seed 42: the store is empty"):
        there.resolve("42")
    there.new_run(SPEC)
    with pytest.raises(UsageError, match=r"no run in .*store has the seed 43: it has 42"):
        there.resolve("43")
    with pytest.raises(UsageError, match=r"no run in .*store has the id or name 'abcdefg'"):
        there.resolve("abcdefg")
