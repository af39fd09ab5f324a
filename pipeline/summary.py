"""The answer over all runs that were ever analysed: totals, and the most frequent signatures.

Nothing in it grows with the number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from pipeline.layout import MANIFEST, Layout
from pipeline.schemas import TABLES, spark_schema
from pipeline.transforms.base import SMALL
from pipeline.trends import AVAILABILITY, DETECTION, counted, latency, over_time, recovery

TOTALS: Final = {
    "runs": "count(*)",
    "invalid": "count_if(verdict = 'invalid')",
    "unknown": "count_if(verdict = 'unknown')",
    "disagreements": "count_if(agrees = false)",
    "agree_but_for_details": "count_if(agrees and size(details) > 0)",
    "detailed": "count_if(size(details) > 0)",
    "not_compared": "count_if(agrees is null)",
    "unreadable": "count_if(not readable)",
    "events": "coalesce(sum(events), 0)",
    "ops": "coalesce(sum(ops), 0)",
    "lines_bad": "coalesce(sum(lines_bad), 0)",
}


def newest(
    spark: SparkSession, layout: Layout, table: str, *, again: bool | None = None
) -> DataFrame:
    """The rows of a table that count: of each run those of the last batch that read it.

    Args:
        spark: The session.
        layout: Where the tables lie.
        table: Its name.
        again: Whether some runs were read more than once; None: look.
    """
    batches = layout.batches()
    if again is None:
        again = read_again(spark, layout, batches)
    last = readings(spark, layout, batches) if again else None
    rows = rows_that_count(spark, layout, table, batches, last)
    return spark.createDataFrame([], _with_batch(table)) if rows is None else rows


def rows_that_count(
    spark: SparkSession,
    layout: Layout,
    table: str,
    batches: Sequence[int],
    last: DataFrame | None,
) -> DataFrame | None:
    """The rows of a table in some batches, with their ``batch``; None if there is no such file.

    Args:
        spark: The session.
        layout: Where the tables lie.
        table: Its name.
        batches: Which ones.
        last: The ``readings`` that count; None: each run was read once.
    """
    paths = layout.paths(table, batches)
    if not paths:
        return None
    base = str(layout.table(table).absolute())
    rows = spark.read.schema(_with_batch(table)).option("basePath", base).parquet(*paths)
    if last is None:
        return rows
    counted = last.select("run", "batch").hint(SMALL)
    return rows.join(counted, ["run", "batch"], "left_semi").select(*rows.columns)


def readings(spark: SparkSession, layout: Layout, batches: Sequence[int]) -> DataFrame:
    """The last reading of each run in these batches: ``run``, ``fingerprint``, ``batch``."""
    read = _manifest(spark, layout, batches)
    return read.groupBy("run").agg(
        F.expr("max_by(fingerprint, batch)").alias("fingerprint"), F.max("batch").alias("batch")
    )


def read_again(spark: SparkSession, layout: Layout, batches: Sequence[int]) -> bool:
    """Tell whether runs were read in more than one batch, so that only their last rows count."""
    if len(batches) < 2:  # noqa: PLR2004 - more than one
        return False
    counts = _manifest(spark, layout, batches).groupBy("run").count()
    return not counts.where("count > 1").isEmpty()


def _manifest(spark: SparkSession, layout: Layout, batches: Sequence[int]) -> DataFrame:
    """Read the manifests of these batches: a row (run, fingerprint, batch) for each reading."""
    schema = spark_schema(TABLES[MANIFEST])
    return spark.read.schema(schema).parquet(*layout.paths(MANIFEST, batches))


def _with_batch(table: str) -> StructType:
    return spark_schema(TABLES[table]).add("batch", "long")


def summarise(spark: SparkSession, layout: Layout, top: int) -> dict[str, Any]:
    """The summary as one JSON object."""
    again = read_again(spark, layout, layout.batches())
    verdicts, runs, anomalies, faults, latencies = (
        newest(spark, layout, table, again=again)
        for table in ("verdicts", "runs", "anomalies", "faults", "latencies")
    )
    totals, found = _totals(runs, verdicts)
    ways = _ways_to_fail(runs, anomalies).persist()
    try:
        signatures = _rows(ways.orderBy(F.desc("runs"), "signature").limit(top))
        periods = over_time(runs, verdicts, ways.selectExpr("first_started as started"))
    finally:
        ways.unpersist()
    trends = {
        "periods": periods,
        "recovery": recovery(faults),
        "latency": latency(latencies),
        "detection": found,
        "availability": {name: totals.pop(name) for name in AVAILABILITY},
    }
    differ = verdicts.where("agrees = false").select(F.explode("differences").alias("reason"))
    details = verdicts.select(F.explode("details").alias("reason"))
    has_details = totals.pop("detailed") > 0
    return {
        **totals,
        "trends": trends,
        "disagreement_reasons": _top(differ, "reason", top) if totals["disagreements"] else [],
        "detail_reasons": _top(details, "reason", top) if has_details else [],
        "signatures": signatures,
    }


def _totals(runs: DataFrame, verdicts: DataFrame) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figures of all runs; and of those with each seeded bug, in how many that was found."""
    found = counted(
        runs.join(verdicts, "run", "left")
        .rollup("mutant")
        .agg(
            F.grouping("mutant").alias("all"),
            *(F.expr(sql).alias(name) for name, sql in (TOTALS | AVAILABILITY | DETECTION).items()),
        ),
        F.desc("all"),
        "mutant",
    )
    whole, by_mutant = found[:1], found[1:]
    names = TOTALS | AVAILABILITY
    totals = {name: whole[0][name] if whole else 0 for name in names}
    return totals, [
        {name: row[name] for name in ("mutant", "runs", *DETECTION)} for row in by_mutant
    ]


def _top(found: DataFrame, column: str, top: int) -> list[dict[str, Any]]:
    counted = found.groupBy(column).agg(F.count("*").alias("runs"))
    return _rows(counted.orderBy(F.desc("runs"), column).limit(top))


def _rows(found: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in found.drop("first_started").collect()]


def _ways_to_fail(runs: DataFrame, anomalies: DataFrame) -> DataFrame:
    """Each signature once: how many runs and anomalies have it, the first run to show it, the last.

    ``first_started`` is when the first one began.
    """
    per_run = anomalies.groupBy("signature", "invariant", "run").agg(F.count("*").alias("times"))
    seeded = per_run.join(runs.select("run", "seed", "started"), "run")
    return seeded.groupBy("signature", "invariant").agg(
        F.count("*").alias("runs"),
        F.sum("times").alias("times"),
        F.expr("min_by(seed, struct(started, run))").alias("first_seed"),
        F.expr("min_by(run, struct(started, run))").alias("first_run"),
        F.expr("max_by(seed, struct(started, run))").alias("last_seed"),
        F.expr("max_by(run, struct(started, run))").alias("last_run"),
        F.min("started").alias("first_started"),
    )
