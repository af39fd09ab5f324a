"""Transforms against the checkers of single runs: on every broken trace that these are tested on.

All traces are runs of one set of tables, so that each transform runs once.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from checkers.consensus import consensus
from checkers.monitor.catalogue import names_of
from checkers.replay.trace import Whole
from harness.contracts.checker import RunData
from pipeline.buckets import Buckets
from pipeline.event_rows import event_rows, life_rows
from pipeline.names import RunName
from pipeline.replicas import fold
from pipeline.rows import batch_rows
from pipeline.schemas import TABLES, spark_schema
from pipeline.transforms import READ, REPLACED, TRANSFORMS, Tables, judge_all
from tests.support.places import ROOT
from tests.support.spark.sessions import quiet_session
from tests.support.traces.traces import Trace, changing, healthy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Found = dict[str, set[str]]


def _traces() -> Iterator[tuple[str, RunData]]:
    """Healthy traces, and those that each break a promise, by the name of the change."""
    path = ROOT / "tests" / "checkers" / "test_consensus.py"
    spec = importlib.util.spec_from_file_location("broken_promises", path)
    assert spec is not None
    assert spec.loader is not None
    broken: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(broken)
    for voters in (3, 5):
        yield f"healthy-{voters}", healthy(voters, 2).run()
        yield f"changing-{voters}", changing(voters).run()
    for name, change in broken.BREAKS:
        trace: Trace = broken.one_leader()
        change(trace)
        yield f"{name}-{change.__name__}", trace.run()
    for name, data in [(name, one.run()) for name, one in (("one", broken.one_leader()),)]:
        for node in ("n1", "n2"):
            for gone in range(1, 30, 4):
                events = dict(data.events)
                events[node] = (*events[node][:gone], *events[node][gone + 1 :])
                yield f"{name}-{node}-lacks-{gone}", RunData(**{**_fields(data), "events": events})


def _fields(data: RunData) -> dict[str, Any]:
    names = ("spec", "history", "events", "logs", "snapshots", "voters", "observers")
    return {name: getattr(data, name) for name in names}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with quiet_session() as session:
        yield session


@pytest.fixture(scope="module")
def runs() -> dict[str, RunData]:
    return dict(_traces())


@pytest.fixture(scope="module")
def expected(runs: dict[str, RunData]) -> Found:
    """What the checker of single runs finds, by invariant."""
    found: Found = defaultdict(set)
    for name, data in runs.items():
        for anomaly in consensus(data).anomalies:
            found[anomaly.invariant].add(name)
    return found


@pytest.fixture(scope="module")
def transformed(
    spark: SparkSession, runs: dict[str, RunData], tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """What the transforms find."""
    names = {name: RunName.of(name) for name in runs}
    made: dict[str, list[Any]] = {each: [] for each in READ}
    for name, run in runs.items():
        folded = fold(Whole.of(run.events))
        made["events"] += event_rows(names[name], folded)
        made["lives"] += life_rows(names[name], folded)
        made["batches"] += batch_rows(names[name], run, folded.exposed)
    buckets = Buckets(spark, tmp_path_factory.mktemp("scratch"), 1)
    events, lives, batches = (
        buckets.keep(_frame(spark, made[each], TABLES[each])) for each in READ
    )
    tables = Tables(events, lives, batches, buckets.keep)
    found: Found = defaultdict(set)
    by_id = {name.run_id: name.run for name in names.values()}
    for row in judge_all(tables).collect():
        found[row.invariant].add(by_id[row.run_id])
    buckets.close()
    return found


def _frame(spark: SparkSession, made: list[Any], schema: Any) -> Any:
    parts = [schema.empty_table(), *(pa.Table.from_batches([each]) for each in made)]
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    return spark.createDataFrame(table, spark_schema(schema))


@pytest.mark.parametrize("name", sorted(REPLACED))
def test_a_transform_finds_the_runs_that_the_checker_of_single_runs_finds(
    name: str, expected: Found, transformed: Found
) -> None:
    assert transformed[name] == expected[name]


@pytest.mark.parametrize("name", sorted(set(TRANSFORMS) - REPLACED))
def test_a_transform_of_a_part_finds_nothing_else(
    name: str, expected: Found, transformed: Found
) -> None:
    assert transformed[name] <= expected[name]
    assert transformed[name]


def test_every_transform_has_a_trace_that_it_is_seen_to_find(transformed: Found) -> None:
    assert {name for name, found in transformed.items() if found} == set(TRANSFORMS)
    assert set(TRANSFORMS) < names_of("consensus")


def test_what_a_part_leaves_is_said() -> None:
    for each in TRANSFORMS.values():
        assert each.says
        assert each.whole or each.rest
