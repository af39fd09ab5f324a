"""Trends over all runs: latency, recovery, elections, detection; and from one time to the next.

Per run only counts are kept, so that the trends of all runs are a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from operator import itemgetter
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
# What happened in a day, a week or a month; each is a sum over days.
OF_A_PERIOD: Final = {
    "runs": "count(*)",
    "invalid": "count_if(verdict = 'invalid')",
    "unknown": "count_if(verdict = 'unknown')",
    "events": "coalesce(sum(events), 0)",
    "elections": AVAILABILITY["elections"],
    "outages": AVAILABILITY["outages"],
    "unavailable_ms": AVAILABILITY["unavailable_ms"],
}
DAY: Final = "concat_ws('-', substr(started, 1, 4), substr(started, 5, 2), substr(started, 7, 2))"
DAYS_MAX = 20_000
SHOWN_BY_DAY = 31
SHOWN_BY_WEEK = 26 * 7
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


def over_time(runs: DataFrame, verdicts: DataFrame, shown_first: DataFrame) -> list[dict[str, Any]]:
    """Add up by the day on which runs began, or by its week or month where days are many.

    Args:
        runs: Rows of RUNS.
        verdicts: Rows of VERDICTS for them.
        shown_first: ``started`` of the first run that showed it, for each way to fail.
    """
    sums = (F.expr(sql).alias(name) for name, sql in OF_A_PERIOD.items())
    by_day = runs.withColumn("day", F.expr(DAY)).join(verdicts, "run", "left").groupBy("day")
    days = {row["day"]: row.asDict() for row in by_day.agg(*sums).limit(DAYS_MAX).collect()}
    new = shown_first.groupBy(F.expr(DAY).alias("day")).count().limit(DAYS_MAX).collect()
    ways = {row["day"]: row["count"] for row in new}
    return periods([{**row, "new_ways_to_fail": ways.get(day, 0)} for day, row in days.items()])


def periods(days: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up days, as 2026-11-24, to weeks, as 2026-W48, or months, as 2026-11, in their order.

    Days that are none stay as they are, and come last.
    """
    rows = sorted(days, key=itemgetter("day"))
    known = [day for row in rows if (day := _date(row["day"])) is not None]
    span = (max(known) - min(known)).days if known else 0
    found: dict[str, Counter[str]] = {}
    for row in rows:
        sums = found.setdefault(_period(row["day"], span), Counter())
        sums.update({name: value for name, value in row.items() if name != "day"})
    return [{"period": period, **sums} for period, sums in sorted(found.items())]


def _period(day: str, span_days: int) -> str:
    date_ = _date(day)
    if date_ is None or span_days < SHOWN_BY_DAY:
        return day
    if span_days < SHOWN_BY_WEEK:
        year, week, _ = date_.isocalendar()
        return f"{year}-W{week:02}"
    return day[:7]


def _date(day: str) -> date | None:
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def counted(found: DataFrame, *by: str | Column) -> list[dict[str, Any]]:
    """The rows of an aggregation in order, as many as there can be kinds."""
    return [row.asDict() for row in found.orderBy(*by).limit(KINDS_MAX).collect()]
