"""The answer over all runs that were ever analysed: totals, and the most frequent signatures.

Nothing in it grows with the number of runs.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.layout import MANIFEST, Layout
from pipeline.schemas import TABLES, spark_schema
from pipeline.transforms.base import SMALL
from pipeline.trends import AVAILABILITY, detection, latency, recovery


def newest(spark: SparkSession, layout: Layout, table: str) -> DataFrame:
    """The rows of a table that count: of each run those of the last batch that read it."""
    schema = spark_schema(TABLES[table]).add("batch", "long")
    batches = layout.batches()
    paths = [str(p) for b in batches if (p := layout.table(table, b).absolute()).is_dir()]
    if not paths:
        return spark.createDataFrame([], schema)
    base = str(layout.table(table).absolute())
    rows = spark.read.schema(schema).option("basePath", base).parquet(*paths)
    manifest = _manifest(spark, layout)
    return rows.join(manifest.hint(SMALL), ["run", "batch"], "left_semi")


def _manifest(spark: SparkSession, layout: Layout) -> DataFrame:
    """(run, batch) of the last batch that read each run."""
    found = [str(layout.table(MANIFEST, b).absolute()) for b in layout.batches()]
    return spark.read.parquet(*found).groupBy("run").agg(F.max("batch").alias("batch"))


def summarise(spark: SparkSession, layout: Layout, top: int) -> dict[str, Any]:
    """The summary as one JSON object."""
    verdicts, runs, anomalies, faults, latencies = (
        newest(spark, layout, table)
        for table in ("verdicts", "runs", "anomalies", "faults", "latencies")
    )
    differences = verdicts.where("agrees = false").select(F.explode("differences").alias("reason"))
    details = verdicts.select(F.explode("details").alias("reason"))
    totals = _totals(runs, verdicts)
    trends = {
        "recovery": recovery(faults),
        "latency": latency(latencies),
        "detection": detection(runs, verdicts),
        "availability": {name: totals.pop(name) for name in AVAILABILITY},
    }
    return {
        **totals,
        "trends": trends,
        "disagreement_reasons": _top(differences, "reason", top),
        "detail_reasons": _top(details, "reason", top),
        "signatures": _signatures(runs, anomalies, top),
    }


def _totals(runs: DataFrame, verdicts: DataFrame) -> dict[str, Any]:
    row = (
        runs.join(verdicts, "run", "left")
        .agg(
            F.count("*").alias("runs"),
            F.expr("count_if(verdict = 'invalid')").alias("invalid"),
            F.expr("count_if(verdict = 'unknown')").alias("unknown"),
            F.expr("count_if(agrees = false)").alias("disagreements"),
            F.expr("count_if(agrees and size(details) > 0)").alias("agree_but_for_details"),
            F.expr("count_if(agrees is null)").alias("not_compared"),
            F.expr("count_if(not readable)").alias("unreadable"),
            F.expr("coalesce(sum(events), 0)").alias("events"),
            F.expr("coalesce(sum(ops), 0)").alias("ops"),
            F.expr("coalesce(sum(lines_bad), 0)").alias("lines_bad"),
            *(F.expr(sql).alias(name) for name, sql in AVAILABILITY.items()),
        )
        .first()
    )
    assert row is not None, "an aggregate has a row"  # noqa: S101
    return dict(row.asDict())


def _top(found: DataFrame, column: str, top: int) -> list[dict[str, Any]]:
    counted = found.groupBy(column).agg(F.count("*").alias("runs"))
    return [row.asDict() for row in counted.orderBy(F.desc("runs"), column).limit(top).collect()]


def _signatures(runs: DataFrame, anomalies: DataFrame, top: int) -> list[dict[str, Any]]:
    """The anomalies that most runs have, each once, with the first and the last run to show it."""
    per_run = anomalies.groupBy("signature", "invariant", "run").agg(F.count("*").alias("times"))
    seeded = per_run.join(runs.select("run", "seed", "started"), "run")
    found = (
        seeded.groupBy("signature", "invariant")
        .agg(
            F.count("*").alias("runs"),
            F.sum("times").alias("times"),
            F.expr("min_by(seed, struct(started, run))").alias("first_seed"),
            F.expr("min_by(run, struct(started, run))").alias("first_run"),
            F.expr("max_by(seed, struct(started, run))").alias("last_seed"),
            F.expr("max_by(run, struct(started, run))").alias("last_run"),
        )
        .orderBy(F.desc("runs"), "signature")
        .limit(top)
    )
    return [row.asDict() for row in found.collect()]
