"""S7 to S12: what logs hold, what is committed, and that it stays."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.base import Tables, overlaps, told, transform
from pipeline.transforms.base import together as union
from pipeline.transforms.windows import BATCH, REPLICA, SMALL

_IS = "concat('offsets ', base, '-', last, ' of epoch ', batch_epoch)"


@transform("S7")
def record_identity(tables: Tables) -> DataFrame:
    """An (offset, epoch) has one content on all replicas at all times, committed or not."""
    every = (
        tables.of("append")
        .select("run_id", *BATCH, "time_ns")
        .unionByName(tables.finals.select("run_id", *BATCH), allowMissingColumns=True)
        .groupBy("run_id", *BATCH)
        .agg(F.min("time_ns").alias("time_ns"))
    )
    return told(
        overlaps(every, "run_id", "batch_epoch"),
        f"concat('two contents at offset ', base, ' of epoch ', batch_epoch, ': ', {_IS},"
        " ', and one that ends at ', end)",
    )


@transform("S8")
def log_matching(tables: Tables) -> DataFrame:
    """Logs that hold the same batch hold the same batches below it, as far as both retain."""
    pairs = tables.appends.where("known and tail.last + 1 = base")
    finals = tables.final_pairs.withColumnRenamed("before", "tail")
    every = pairs.select("run_id", *BATCH, "tail", "time_ns").unionByName(
        finals.select("run_id", *BATCH, "tail", "time_ns")
    )
    differ = (
        every.groupBy("run_id", *BATCH, "tail")
        .agg(F.min("time_ns").alias("time_ns"))
        .groupBy("run_id", *BATCH)
        .agg(F.count("*").alias("count"), F.max("time_ns").alias("time_ns"))
        .where("count > 1")
    )
    jumps = tables.final_pairs.where("before.last + 1 != base")
    return union(
        [
            told(differ, f"concat('logs differ below ', {_IS}, ' in ', count, ' ways')"),
            told(
                jumps,
                "concat('the final log of ', node, ' jumps from offset ', before.last, ' to ',"
                " base)",
            ),
        ]
    )


@transform(
    "S9", rest="that a majority of the voters still holds what is committed when the run is over"
)
def commit_stability(tables: Tables) -> DataFrame:
    """What is committed at an offset is the same for every replica, and for ever."""
    committed = tables.committed.select("run_id", *BATCH, F.col("by.time").alias("time_ns"))
    ends = tables.of("hwm", "snap").where("type = 'hwm' or snapshot_op = 'install'")
    highest = (
        ends.groupBy("run_id", "node")
        .agg(F.expr("max(coalesce(high_watermark, snapshot_end))").alias("hwm"))
        .withColumn("node", F.expr("concat('n', node)"))
    )
    finals = tables.finals.join(highest, ["run_id", "node"]).where("last < hwm")
    every = (
        committed.withColumn("sure", F.lit(True))
        .unionByName(
            finals.select("run_id", *BATCH).withColumn("sure", F.lit(False)),
            allowMissingColumns=True,
        )
        .groupBy("run_id", *BATCH)
        .agg(F.bool_or("sure").alias("sure"), F.min("time_ns").alias("time_ns"))
    )
    # two final logs that differ where the trace does not say what is committed are S7's matter
    earlier = (
        Window.partitionBy("run_id")
        .orderBy("base", "last", "crc", "batch_epoch")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    ends = every.withColumns(
        {
            "sure_end": F.max(F.expr("if(sure, last, null)")).over(earlier),
            "any_end": F.max("last").over(earlier),
        }
    )
    return told(
        ends.where("sure_end >= base or (sure and any_end >= base)"),
        f"concat('offset ', base, ' was committed with another content than ', {_IS})",
    )


@transform("S10")
def no_committed_truncation(tables: Tables) -> DataFrame:
    """No truncation, no restart and no snapshot removes a record that is committed."""
    found = tables.states.where("type in ('trunc', 'start', 'snap')")
    below = found.where("type = 'trunc' and truncated_to < hwm_before")
    reaches = (
        "case type when 'trunc' then end_before when 'snap' then end_before"
        " else if(log_end < flushed_before, flushed_before, null) end"
    )
    cuts = (
        found.where("known and end_before is not null")
        .where("type != 'trunc' or hwm_before is null or truncated_to >= hwm_before")
        .withColumns(
            {
                "low": F.expr("coalesce(truncated_to, snapshot_end, log_end)"),
                "high": F.expr(reaches),
            }
        )
        .where("high is not null")
        .select(*REPLICA, "node", F.col("ord").alias("until"), "type", "time_ns", "low", "high")
    )
    gone = (
        tables.lives.where("until is not null")
        .select(*REPLICA, "until", *BATCH)
        .join(cuts.hint(SMALL), [*REPLICA, "until"])
        .where("last >= low and last < high")
    )
    lost = tables.commit_map.join(gone.hint(SMALL), ["run_id", *BATCH]).where("committed < until")
    firsts = lost.groupBy(*REPLICA, "node", "until", "type", "low").agg(
        F.min("base").alias("base"), F.min("time_ns").alias("time_ns")
    )
    return union(
        [
            told(
                below,
                "concat('n', node, ' truncated its log to ', truncated_to,"
                " ', below its high watermark ', hwm_before)",
            ),
            told(
                firsts,
                "concat('n', node, ' lost the committed offset ', base, ' by a ',"
                " case type when 'trunc' then 'truncation' when 'snap' then 'snapshot'"
                " else 'restart' end, ' to ', low)",
            ),
        ]
    )


@transform("S11")
def leader_completeness(tables: Tables) -> DataFrame:
    """The winner of an epoch has all that leaders of earlier epochs have committed."""
    wins = tables.states.where("type = 'elected' and known").select(
        *REPLICA,
        "node",
        F.col("ord").alias("won"),
        F.col("epoch").alias("won_epoch"),
        "end_before",
        F.coalesce("start_before", F.lit(0)).alias("start_before"),
        F.col("time_ns").alias("won_ns"),
    )
    due = (
        tables.commit_map.join(wins.hint(SMALL), "run_id")
        .where("committed < won and by_epoch < won_epoch and base >= start_before")
        .select(*REPLICA, "node", "won", "won_epoch", "won_ns", "end_before", *BATCH)
    )
    held = tables.lives.select(*REPLICA, *BATCH, F.col("ord").alias("since"), "until")
    has = due.join(held, [*REPLICA, *BATCH]).where("since < won and coalesce(until >= won, true)")
    key = [*REPLICA, "won", *BATCH]
    lacks = due.join(has.select(*key), key, "left_anti").where("end_before is not null")
    # nothing there, or another batch: where the trace tells of neither nothing is concluded
    others = held.selectExpr(*REPLICA, "base as other_base", "last as other_last", "since", "until")
    within = (
        lacks.where("base < end_before")
        .join(others, [*REPLICA])
        .where(
            "since < won and coalesce(until >= won, true)"
            " and base between other_base and other_last"
        )
    )
    columns = [*REPLICA, "node", "won_epoch", "base", "won_ns as time_ns"]
    beyond = lacks.where("base >= end_before").selectExpr(*columns)
    missing = beyond.unionByName(within.selectExpr(*columns))
    firsts = missing.groupBy(*REPLICA, "node", "won_epoch").agg(
        F.min("base").alias("base"), F.min("time_ns").alias("time_ns")
    )
    return told(
        firsts,
        "concat('n', node, ' won epoch ', won_epoch, ' without the committed offset ', base)",
    )


@transform("S12", rest="what the LeaderChange record of an epoch says")
def leader_append_only(tables: Tables) -> DataFrame:
    """A leader appends at its log end, first of all a control batch, and cuts nothing."""
    known = tables.states.where("known")
    wrote = known.where("type = 'append' and source = 'leader'")
    starts = tables.epoch_starts.select(
        *REPLICA, F.col("epoch").alias("batch_epoch"), "began", "start"
    )
    begins = wrote.where("control = false").join(starts.hint(SMALL), [*REPLICA, "batch_epoch"])
    return union(
        [
            told(
                wrote.where("not leads_before <=> batch_epoch"),
                "concat('n', node, ' wrote a batch of epoch ', batch_epoch,"
                " ' without leading that epoch')",
            ),
            told(
                wrote.where("base != end_before"),
                "concat('n', node, ' wrote a batch at offset ', base, ', but its log ended at ',"
                " end_before)",
            ),
            told(
                begins.where("began < ord and start = base"),
                "concat('n', node, ' began its reign of epoch ', batch_epoch,"
                " ' with a batch that is no control batch')",
            ),
            told(
                known.where("type in ('trunc', 'snap') and leads_before is not null"),
                "concat('n', node, if(type = 'trunc', ' cut its log', ' installed a snapshot'),"
                " ' while it led epoch ', leads_before)",
            ),
        ]
    )
