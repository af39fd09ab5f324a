"""Trends over all runs under faults: latency, recovery, elections, detection.

Per run only counts are kept, so that the trends of all runs are a sum.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.rows import BUCKETS_PER_DOUBLING

# Sums over rows of RUNS.
AVAILABILITY: Final = {
    "elections": "coalesce(sum(elections), 0)",
    "elections_per_run_max": "max(elections)",
    "outages": "coalesce(sum(outages), 0)",
    "unavailable_ms": "coalesce(sum(unavailable_ms), 0)",
    "duration_ms": "coalesce(sum(duration_ns), 0) / 1e6",
}
# Likewise, with those of VERDICTS: in how many a seeded bug was found, and when.
DETECTION: Final = {
    "detected": "count_if(verdict = 'invalid')",
    "detected_after_ms_p50": (
        "percentile_approx(if(verdict = 'invalid', detected_ns, null) / 1e6, 0.5)"
    ),
}
KINDS_MAX = 500  # of nemeses, mutants: there are dozens


def recovery(faults: DataFrame) -> list[dict[str, Any]]:
    """Work out by nemesis how often it took hold, and how long after its heal an op was ok."""
    took_hold = F.expr("count_if(outcome = 'installed' and evidence)")
    return counted(
        faults.groupBy("nemesis").agg(
            F.count("*").alias("faults"),
            took_hold.alias("installed"),
            F.expr("percentile_approx(recovery_ms, 0.5)").alias("recovery_ms_p50"),
            F.expr("percentile_approx(recovery_ms, 0.99)").alias("recovery_ms_p99"),
            F.max("recovery_ms").alias("recovery_ms_max"),
        ),
        "nemesis",
    )


def latency(taken: DataFrame) -> list[dict[str, Any]]:
    """Work out percentiles of how long ok ops took, by f and nemesis, to a quarter doubling."""
    summed = taken.groupBy("f", "nemesis", "bucket").agg(F.sum("count").alias("count"))
    upper_ms = f"round(power(2, (q + 1) / {BUCKETS_PER_DOUBLING}) / 1000, 3)"
    found = summed.groupBy("f", "nemesis").agg(
        F.sum("count").alias("ops"),
        F.expr("percentile(bucket, array(0.5, 0.99), count)").alias("quantiles"),
    )
    times = F.expr(f"transform(quantiles, q -> {upper_ms})")
    return counted(
        found.withColumn("times", times).selectExpr(
            "f", "nemesis", "ops", "times[0] as latency_ms_p50", "times[1] as latency_ms_p99"
        ),
        "f",
        "nemesis",
    )


def counted(found: DataFrame, *by: str | Column) -> list[dict[str, Any]]:
    """The rows of an aggregation in order, as many as there can be kinds."""
    return [row.asDict() for row in found.orderBy(*by).limit(KINDS_MAX).collect()]
