"""Invariants as DataFrame transforms: joins, windows and aggregations over the events of all runs.

A transform gives rows (run, message, time_ns) for what breaks its invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name


@dataclass(frozen=True, slots=True)
class Tables:
    """What transforms read."""

    events: DataFrame
    batches: DataFrame


Transform = Callable[[Tables], DataFrame]
TRANSFORMS: dict[str, Transform] = {}


def transform(name: str) -> Callable[[Transform], Transform]:
    """Let a function judge the invariant of that name."""

    def add(function: Transform) -> Transform:
        TRANSFORMS[name] = function
        return function

    return add


@transform("S1")
def election_safety(tables: Tables) -> DataFrame:
    """In each epoch at most one replica leads, and all who name a leader name the same."""
    events = tables.events
    leads = events.where(
        "type = 'elected' or (type = 'role' and role = 'leader')"
        " or (type = 'append' and source = 'leader')"
    ).select(
        "run",
        F.expr("if(type = 'append', batch_epoch, epoch)").alias("of_epoch"),
        F.expr("concat('n', node, ' (dir ', dir, ')')").alias("who"),
        "ord",
        "time_ns",
        F.lit("leads").alias("how"),
    )
    names = events.where(
        "type in ('start', 'qs', 'role') and leader is not null"
        " and not (type = 'role' and role = 'leader')"
    ).select(
        "run",
        F.expr("if(type = 'start', disk_epoch, epoch)").alias("of_epoch"),
        F.expr("concat('n', leader)").alias("who"),
        "ord",
        "time_ns",
        F.lit("is named").alias("how"),
    )
    named = leads.withColumns(
        {"who": F.expr("split_part(who, ' ', 1)"), "how": F.lit("is named")}
    ).unionByName(names)
    firsts = (
        leads.unionByName(named)
        .where("of_epoch is not null")
        .groupBy("run", "how", "of_epoch", "who")
        .agg(F.expr("min(struct(ord, time_ns, who))").alias("first"))
        .groupBy("run", "how", "of_epoch")
        .agg(F.sort_array(F.collect_list("first")).alias("firsts"))
        .where("size(firsts) > 1")
    )
    return firsts.select(
        "run",
        F.expr(
            "concat('epoch ', of_epoch, ' has two leaders: ', firsts[0].who, ' and ',"
            " firsts[1].who)"
        ).alias("message"),
        F.expr("firsts[1].time_ns").alias("time_ns"),
    )


def judge_all(tables: Tables, transforms: Mapping[str, Transform] = TRANSFORMS) -> DataFrame:
    """All that any transform finds, with the name of its invariant."""
    found = [
        function(tables).select("run", F.lit(name).alias("invariant"), "message", "time_ns")
        for name, function in transforms.items()
    ]
    together = found[0]
    for each in found[1:]:
        together = together.unionByName(each)
    return together
