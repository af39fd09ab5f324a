"""Sums up the parts of the pipeline for each run, and says where results.json differs.

All of it are joins and aggregations; the lattice is that of ``harness.verdict``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from harness.run.judge import COVERAGE


def verdicts_of(runs: DataFrame, keys: DataFrame, anomalies: DataFrame) -> DataFrame:
    """Rows of VERDICTS for the runs of a batch.

    Args:
        runs: Rows of RUNS.
        keys: Rows of KEYS for them.
        anomalies: All that was found in them by any part.
    """
    checked = runs.select("run", F.explode("checked").alias("by"))
    whole = checked.select("run", "by.checker", "by.valid")
    every = whole.unionByName(_of_keys(runs, keys))
    # a transform speaks for the checker whose invariant it judges
    broken = anomalies.groupBy("run", "checker").agg(F.count("*").alias("found"))
    judged = (
        every.join(broken, ["run", "checker"], "left")
        .withColumn("valid", F.expr("if(found > 0, 'invalid', valid)"))
        .groupBy("run")
        .agg(
            _worst(f"checker != '{COVERAGE}'").alias("system_level"),
            _worst(f"checker = '{COVERAGE}'").alias("coverage_level"),
            F.map_from_entries(F.collect_list(F.struct("checker", "valid"))).alias("by_checker"),
        )
    )
    found = anomalies.groupBy("run").agg(
        F.array_sort(F.collect_set("invariant")).alias("invariants"),
        F.min("time_ns").alias("detected_ns"),
    )
    together = (
        runs.join(judged, "run", "left")
        .join(found, "run", "left")
        .withColumn("invariants", F.coalesce("invariants", _none()))
        # whoever has no checker that looked at the system, or cannot be read, is unknown
        .withColumn("system_verdict", _word(F.coalesce("system_level", F.lit(1))))
        .withColumn("coverage_verdict", _word(F.coalesce("coverage_level", F.lit(0))))
        .withColumn("verdict", _verdict())
        .withColumn("differences", _differences())
        .withColumn("details", _details())
    )
    return together.withColumn(
        "agrees", F.when(F.col("stored").isNotNull(), F.size("differences") == 0)
    )


def _of_keys(runs: DataFrame, keys: DataFrame) -> DataFrame:
    """Tell what the keys of a run come to, by checker; without any key nothing was decided."""
    asked = runs.select("run", F.explode("keyed").alias("checker"))
    counts = keys.groupBy("run", "checker").agg(
        *(F.expr(f"count_if(valid = '{v}')").alias(v) for v in ("valid", "unknown", "invalid"))
    )
    words = (
        F.when(F.col("invalid") > 0, "invalid")
        .when((F.col("unknown") > 0) | (F.coalesce("valid", F.lit(0)) == 0), "unknown")
        .otherwise("valid")
    )
    return asked.join(counts, ["run", "checker"], "left").select(
        "run", "checker", words.alias("valid")
    )


def _worst(which: str) -> Column:
    """The worst verdict of those checkers, as a number; null without any."""
    level = "case valid when 'valid' then 0 when 'unknown' then 1 else 2 end"
    return F.expr(f"max(if({which}, {level}, null))")


def _word(level: Column) -> Column:
    return F.element_at(F.array(F.lit("valid"), F.lit("unknown"), F.lit("invalid")), level + 1)


def _verdict() -> Column:
    """The one word for a run, as ``harness.sessions.live.verdict`` says it."""
    return F.expr(
        "case when system_verdict = 'invalid' then 'invalid'"
        " when not coalesce(harness_ok, false) then 'unknown'"
        " when system_verdict = 'unknown' or coverage_verdict != 'valid' then 'unknown'"
        " else 'valid' end"
    )


def _differences() -> Column:
    """Tell where the verdict and that of results.json differ, a sentence each."""
    return _if_stored(
        F.expr(
            "filter(array("
            " if(stored <=> system_verdict, null,"
            "  concat('system: ', stored, ' in results.json, here ', system_verdict)),"
            " if(stored_coverage <=> coverage_verdict, null,"
            "  concat('coverage: ', stored_coverage, ' in results.json, here ', coverage_verdict)"
            " )), s -> s is not null)"
        )
    )


def _details() -> Column:
    """Tell where a checker or the broken invariants differ, be the verdict the same."""
    checkers = F.expr(
        "transform(filter(stored_checked, s -> not (by_checker[s.checker] <=> s.valid)),"
        " s -> concat(s.checker, ': ', s.valid, ' in results.json, here ',"
        " coalesce(by_checker[s.checker], 'not judged')))"
    )
    names = F.expr(
        "if(array_sort(stored_invariants) <=> invariants, cast(array() as array<string>),"
        " array(concat('broken: ', array_join(array_sort(stored_invariants), ' '),"
        " ' in results.json, here ', array_join(invariants, ' '))))"
    )
    return _if_stored(F.concat(F.coalesce(checkers, _none()), names))


def _if_stored(found: Column) -> Column:
    return F.when(F.col("stored").isNull(), _none()).otherwise(found)


def _none() -> Column:
    return F.array().cast("array<string>")
