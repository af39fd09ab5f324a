"""How the system fares under faults, over all runs: latency, recovery, elections, detection.

Per run only counts are kept, so that the trends of all runs are a sum.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.base import SMALL

NO_FAULT = "none"
BUCKETS_PER_DOUBLING = 4
# Sums over rows of RUNS.
AVAILABILITY: Final = {
    "elections": "coalesce(sum(elections), 0)",
    "elections_per_run_max": "max(elections)",
    "outages": "coalesce(sum(outages), 0)",
    "unavailable_ms": "coalesce(sum(unavailable_ms), 0)",
    "duration_ms": "coalesce(sum(duration_ns), 0) / 1e6",
}
KINDS_MAX = 500  # of nemeses, mutants: there are dozens


def latencies(ops: DataFrame, faults: DataFrame) -> DataFrame:
    """Rows of LATENCIES: ok ops by f, by what may have been in force, and by how long they took.

    An op during two faults counts for both.
    """
    done = ops.where("type = 'ok' and latency_ns is not null and is_process_int").select(
        "run_id",
        "run",
        "f",
        "latency_ns",
        (F.col("time_ns") - F.col("latency_ns")).alias("began"),
        "time_ns",
    )
    windows = faults.where("not outcome <=> 'skipped'").select(
        "run_id", "nemesis", "start_ns", "end_ns"
    )
    joined = done.alias("o").join(
        windows.alias("w").hint(SMALL),
        (F.col("o.run_id") == F.col("w.run_id"))
        & (F.col("start_ns") <= F.col("time_ns"))
        & F.coalesce(F.col("end_ns") >= F.col("began"), F.lit(True)),
        "left",
    )
    bucket = F.floor(
        F.log2(F.greatest(F.col("latency_ns") / 1_000, F.lit(1.0))) * BUCKETS_PER_DOUBLING
    )
    return joined.groupBy(
        F.col("o.run_id").alias("run_id"),
        "run",
        "f",
        F.coalesce("nemesis", F.lit(NO_FAULT)).alias("nemesis"),
        bucket.alias("bucket"),
    ).agg(F.count("*").alias("count"))


def recovery(faults: DataFrame) -> list[dict[str, Any]]:
    """By nemesis: how often it took hold, and how long after its heal an op was ok again."""
    took_hold = F.expr("count_if(outcome = 'installed' and evidence)")
    return _rows(
        faults.groupBy("nemesis").agg(
            F.count("*").alias("faults"),
            took_hold.alias("installed"),
            F.expr("percentile_approx(recovery_ms, 0.5)").alias("recovery_ms_p50"),
            F.expr("percentile_approx(recovery_ms, 0.99)").alias("recovery_ms_p99"),
            F.max("recovery_ms").alias("recovery_ms_max"),
        ),
        "nemesis",
    )


def latency(counted: DataFrame) -> list[dict[str, Any]]:
    """By f and nemesis: percentiles of how long ok ops took, to a quarter of a doubling."""
    summed = counted.groupBy("f", "nemesis", "bucket").agg(F.sum("count").alias("count"))
    upper_ms = f"round(power(2, (q + 1) / {BUCKETS_PER_DOUBLING}) / 1000, 3)"
    found = summed.groupBy("f", "nemesis").agg(
        F.sum("count").alias("ops"),
        F.expr("percentile(bucket, array(0.5, 0.99), count)").alias("quantiles"),
    )
    times = F.expr(f"transform(quantiles, q -> {upper_ms})")
    return _rows(
        found.withColumn("times", times).selectExpr(
            "f", "nemesis", "ops", "times[0] as latency_ms_p50", "times[1] as latency_ms_p99"
        ),
        "f",
        "nemesis",
    )


def detection(runs: DataFrame, verdicts: DataFrame) -> list[dict[str, Any]]:
    """By seeded bug: in how many runs it was found, and when; null is the healthy system."""
    judged = runs.join(verdicts.select("run", "verdict", "detected_ns"), "run")
    after_ms = "if(verdict = 'invalid', detected_ns, null) / 1e6"
    return _rows(
        judged.groupBy("mutant").agg(
            F.count("*").alias("runs"),
            F.expr("count_if(verdict = 'invalid')").alias("detected"),
            F.expr(f"percentile_approx({after_ms}, 0.5)").alias("detected_after_ms_p50"),
        ),
        "mutant",
    )


def _rows(found: DataFrame, *by: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in found.orderBy(*by).limit(KINDS_MAX).collect()]
