"""The answer over all runs that were ever analysed: totals, and the most frequent signatures.

Nothing in it grows with the number of runs.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.layout import MANIFEST, Layout
from pipeline.schemas import TABLES, spark_schema
from pipeline.transforms.base import SMALL
from pipeline.trends import AVAILABILITY, DETECTION, counted, latency, recovery

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
    schema = spark_schema(TABLES[table]).add("batch", "long")
    batches = layout.batches()
    paths = [str(p) for b in batches if (p := layout.table(table, b).absolute()).is_dir()]
    if not paths:
        return spark.createDataFrame([], schema)
    base = str(layout.table(table).absolute())
    rows = spark.read.schema(schema).option("basePath", base).parquet(*paths)
    if again is None:
        again = read_again(spark, layout)
    if not again:
        return rows
    last = _manifest(spark, layout).agg(F.max("batch").alias("batch"))
    return rows.join(last.hint(SMALL), ["run", "batch"], "left_semi")


def read_again(spark: SparkSession, layout: Layout) -> bool:
    """Tell whether runs were read in more than one batch, so that only their last rows count."""
    if len(layout.batches()) < 2:  # noqa: PLR2004 - more than one
        return False
    return not _manifest(spark, layout).count().where("count > 1").isEmpty()


def _manifest(spark: SparkSession, layout: Layout) -> GroupedData:
    """(run, batch) of all batches that read it, by run."""
    found = [str(layout.table(MANIFEST, b).absolute()) for b in layout.batches()]
    return spark.read.schema("run string, batch long").parquet(*found).groupBy("run")


def summarise(spark: SparkSession, layout: Layout, top: int) -> dict[str, Any]:
    """The summary as one JSON object."""
    again = read_again(spark, layout)
    verdicts, runs, anomalies, faults, latencies = (
        newest(spark, layout, table, again=again)
        for table in ("verdicts", "runs", "anomalies", "faults", "latencies")
    )
    totals, found = _totals(runs, verdicts)
    trends = {
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
        "signatures": _signatures(runs, anomalies, top),
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
