"""The pipeline over a small store: verdicts as before, incremental, whatever is damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.sessions.zoo import bugs, plan_of
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir, Store
from pipeline.analysis import TABLES_FOLDER, Options, analyse
from pipeline.layout import MANIFEST, Layout
from pipeline.listing import runs_of, shares
from pipeline.merging import Sizes, due, merge
from pipeline.reading import read_run
from pipeline.schemas import TABLES, spark_schema
from pipeline.summary import newest
from tests.support.spark.cluster import standalone_cluster
from tests.support.spark.sessions import quiet_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
KRUCIBLE = (sys.executable, "-c", "from krucible.app import main; main()")
MUTANTS = ("ack-before-commit", "unsaved-index")


def _short(seed: int, workload: str) -> Plan:
    return Plan.simulated(
        RunSpec(
            seed=seed,
            env=SIM,
            workload=workload,
            voters=3,
            observers=1,
            time_limit_s=3.0,
            rate_hz=20.0,
            concurrency=3,
        )
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of healthy runs and of runs with a bug; nobody changes it."""
    root = tmp_path_factory.mktemp("made")
    store = Store(root)
    for seed, workload in ((1, "register"), (2, "list-append"), (3, "topics")):
        save(simulate(_short(seed, workload)), store)
    for bug in bugs(MUTANTS):
        assert bug.scenario is not None
        seed = bug.scenario["seeds"][0]
        save(simulate(plan_of(bug.scenario, seed, bug.name, tuple(bug.breaks))), store)
    return root


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "store", symlinks=True))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with quiet_session() as session:
        yield session


def _analyse(spark: SparkSession, store: Path, **changes: Any) -> dict[str, Any]:
    return analyse(spark, Options(store, store / TABLES_FOLDER, **changes))


def _invalid(store: Path) -> int:
    results = [json.loads(run.results.read_bytes()) for run in Store(store).runs()]
    return sum(each["system"] == "invalid" for each in results)


def test_verdicts_are_those_of_single_runs_and_what_was_read_is_not_read_again(
    spark: SparkSession, store: Path
) -> None:
    first = _analyse(spark, store)
    assert (first["runs"], first["disagreements"], first["not_compared"]) == (5, 0, 0)
    assert first["invalid"] == _invalid(store) == len(MUTANTS)
    assert first["new"]["runs"] == 5
    assert first["signatures"]
    assert first["trends"]["latency"]
    assert {each["mutant"] for each in first["trends"]["detection"]} == {None, *MUTANTS}
    assert json.loads(Layout(store / TABLES_FOLDER).summary.read_bytes())["runs"] == 5

    # a verdict that is not ours, a run that is still being written, a damaged one, and one that
    # is quiet and that nobody judged
    changed, pending, damaged, quiet = Store(store).runs()[:4]
    results = json.loads(changed.results.read_bytes())
    changed.results.write_text(json.dumps({**results, "system": "unknown"}))
    pending.results.unlink()
    _damage(damaged)
    quiet.results.unlink()
    for path in (quiet.path, *quiet.path.rglob("*")):
        os.utime(path, (1, 1), follow_symlinks=False)
    again = _analyse(spark, store, spread_ops=1)  # every key where there is room
    assert (again["new"]["runs"], again["pending"], again["not_compared"]) == (3, 1, 1)
    assert again["runs"] == 5, "what was read before still counts"
    assert again["disagreements"] >= 1
    reasons = [each["reason"] for each in again["disagreement_reasons"]]
    assert any(reason.startswith("system: unknown in results.json") for reason in reasons)
    assert again["lines_bad"] == 3
    assert [(p["runs"], p["invalid"]) for p in again["trends"]["periods"]] == [(5, 2)]
    _batches_are_merged_without_loss(spark, store, again)


def _batches_are_merged_without_loss(
    spark: SparkSession, store: Path, told: dict[str, Any]
) -> None:
    """Merge two batches into one; the same rows count, and the summary stays the same."""
    layout = Layout(store / TABLES_FOLDER)
    first, second = layout.batches()
    assert due(layout, Sizes()) == [], "two are not many"
    assert due(layout, Sizes(many=2, big_bytes=1)) == [], "they are not small"
    small = Sizes(many=2)
    counted = {table: _counted(spark, layout, table) for table in TABLES}
    read = dict(counted[MANIFEST])
    assert len(read) < len(counted[MANIFEST]), "some were read twice"
    merged = merge(spark, layout, due(layout, small), small)
    assert layout.batches() == [merged]
    assert first < second < merged < layout.begin()
    after = {table: _counted(spark, layout, table) for table in TABLES}
    assert len(after.pop(MANIFEST)) == len(read)
    del counted[MANIFEST]
    assert after == counted
    for table in TABLES:
        assert len(list(layout.table(table).rglob("*.parquet"))) <= 1

    once_more = _analyse(spark, store, sizes=Sizes(many=1))
    assert once_more["new"]["runs"] == 0, "what was merged is known"
    assert layout.batches() == [merged + 1], "the analysis has merged by itself"
    del told["new"], once_more["new"]
    assert once_more == told


def _counted(spark: SparkSession, layout: Layout, table: str) -> list[Any]:
    """The rows of a table that count, in some order of their own, without their batch."""
    if table == MANIFEST:
        found = spark.read.parquet(*layout.paths(table))
    else:
        found = newest(spark, layout, table)
    rows = [tuple(row) for row in found.drop("batch").collect()]
    return sorted(rows, key=repr)


def _damage(run: RunDir) -> None:
    """Cut off an op and an event, and put a line among the ops that is none."""
    events = run.events("n1")
    events.write_bytes(events.read_bytes() + b'{"ts":12,"se')
    lines = run.history.read_bytes().splitlines(keepends=True)
    run.history.write_bytes(b"".join([*lines[:4], b"no op\n", *lines[4:], b'{"index":']))


def test_a_damaged_run_is_read_without_its_bad_lines(store: Path) -> None:
    run = Store(store).runs()[0]
    whole = read_run(run.path)
    assert whole.stored is not None
    assert whole.lines_bad == 0
    _damage(run)
    read = read_run(run.path)
    assert read.stored is not None
    assert read.lines_bad == 3
    assert read.stored.data.history == whole.stored.data.history
    assert read.stored.data.events == whole.stored.data.events
    assert read.stored.warnings


def test_two_objects_on_one_line_are_a_line_that_is_none(store: Path) -> None:
    run = Store(store).runs()[0]
    events = run.events("n1")
    first, second, *others = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([first.rstrip(b"\n"), b" ", second, *others]))
    read = read_run(run.path)
    assert read.lines_bad == 1
    assert read.stored is not None
    assert len(read.stored.data.events["n1"]) == len(others)


def test_a_table_without_any_row_is_empty_not_unreadable(
    spark: SparkSession, tmp_path: Path
) -> None:
    layout = Layout(tmp_path)
    batch = layout.begin()
    layout.table("faults", batch).mkdir(parents=True)
    rows = spark.createDataFrame([("a/b", "0", batch)], spark_schema(TABLES[MANIFEST]))
    rows.write.parquet(str(layout.draft))
    layout.commit(batch, 0)
    assert newest(spark, layout, "faults").count() == 0


def test_a_run_without_a_spec_that_can_be_read_is_told_not_fatal(store: Path) -> None:
    run = Store(store).runs()[0]
    run.spec.write_text("{")
    read = read_run(run.path)
    assert read.stored is None
    assert read.problem is not None
    assert "not the spec of a run" in read.problem


def test_each_run_falls_to_one_share(store: Path) -> None:
    found = [row["run"] for share in shares(store) for row in runs_of(store, *share)]
    assert sorted(found) == sorted(str(r.path.relative_to(store)) for r in Store(store).runs())
    thirds = [row["run"] for n in range(3) for row in runs_of(store, "kraft-register", n, 3)]
    assert sorted(thirds) == sorted(run for run in found if run.startswith("kraft-register/"))


def test_the_fingerprint_of_a_run_changes_with_what_it_is_judged_by(store: Path) -> None:
    run = Store(store).runs()[0]

    def fingerprint() -> str:
        name = str(run.path.relative_to(store))
        every = [row for share in shares(store) for row in runs_of(store, *share)]
        return next(str(row["fingerprint"]) for row in every if row["run"] == name)

    before = fingerprint()
    run.report.write_text("another page")
    assert fingerprint() == before
    os.utime(run.events("n1"), (1, 1))
    assert fingerprint() != before


def test_two_analyses_of_one_store_do_not_mix(spark: SparkSession, store: Path) -> None:
    with Layout(store / TABLES_FOLDER).locked(), pytest.raises(UsageError, match="at work"):
        _analyse(spark, store)


def test_what_an_analysis_left_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.table("events", 1).mkdir(parents=True)
    (layout.table("events", 1) / "part-0.parquet").write_bytes(b"half")
    assert layout.batches() == []
    assert layout.begin() > 1
    assert not layout.table("events", 1).exists()


def test_a_merged_batch_counts_instead_of_its_own_at_once_and_as_a_whole(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    batches = []
    for _ in range(3):
        batches.append(layout.begin())
        _fake_batch(layout, batches[-1])
        layout.commit(batches[-1], began_ns=batches[-1] * 10**9)
    first, second, third = batches
    into = second + 1
    _fake_batch(layout, into)
    assert layout.batches() == batches, "cut short before its manifest was there"

    layout.commit_merged(into, first)
    assert layout.batches() == [into, third], "cut short before the others were removed"
    assert layout.since_ns == third * 10**9
    layout.begin()
    for table in ("events", MANIFEST):
        there = sorted(path.name for path in layout.table(table).glob("batch=*"))
        assert there == [f"batch={into}", f"batch={third}"]

    all_ = third + 1
    _fake_batch(layout, all_)
    layout.commit_merged(all_, into)
    assert layout.batches() == [all_]
    assert layout.since_ns == third * 10**9, "an analysis has begun then, and none later"


def _fake_batch(layout: Layout, batch: int) -> None:
    layout.table("events", batch).mkdir(parents=True)
    layout.draft.mkdir(parents=True)


@pytest.mark.long
def test_a_cluster_of_two_workers_says_the_same(store: Path, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path, workers=2) as master:
        command = [*KRUCIBLE, "analyze", str(store), "--json"]
        done = subprocess.run(
            [*command, "--master", master],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert (told["runs"], told["invalid"], told["disagreements"]) == (5, len(MUTANTS), 0)
    applications = [path for path in tmp_path.glob("worker-*/app-*/*") if path.is_dir()]
    assert len(applications) == 2, "both workers took part"


@pytest.mark.parametrize("arguments", [["nowhere"], []])
def test_a_store_that_is_not_there_is_a_mistake_of_the_user(arguments: list[str]) -> None:
    command = [*KRUCIBLE, "analyze", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 254
    assert done.stderr.startswith("krucible: ")
