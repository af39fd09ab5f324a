"""S7 to S12: what logs hold, what is committed, and that it stays."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.schemas import BATCH
from pipeline.transforms.base import IS_BATCH, REPLICA, SMALL, Tables, Wrong, before, transform

_BY_OFFSET = ("base", "last", "crc", "batch_epoch")


@transform("S7")
def record_identity(tables: Tables) -> Sequence[Wrong]:
    """An (offset, epoch) has one content on all replicas at all times, committed or not."""
    earlier = before("run_id", "batch_epoch", order=_BY_OFFSET)
    ends = tables.contents.withColumn("end", F.max("last").over(earlier))
    return [
        Wrong(
            ends,
            f"concat('two contents at offset ', base, ' of epoch ', batch_epoch, ': ', {IS_BATCH},"
            " ', and one that ends at ', end)",
            "end >= base",
        )
    ]


@transform("S8", rest="which fetches a leader serves, and which it calls diverging")
def log_matching(tables: Tables) -> Sequence[Wrong]:
    """Logs that hold the same batch hold the same batches below it, as far as both retain."""
    differ = tables.contents.where("tails > 1").withColumn("time_ns", F.col("tails_ns"))
    return [
        Wrong(differ, f"concat('logs differ below ', {IS_BATCH}, ' in ', tails, ' ways')"),
        Wrong(
            tables.finals,
            "concat('the final log of ', node, ' jumps from offset ', tail_last, ' to ', base)",
            "tail_last + 1 != base",
        ),
    ]


@transform(
    "S9", rest="that a majority of the voters still holds what is committed when the run is over"
)
def commit_stability(tables: Tables) -> Sequence[Wrong]:
    """Tell what is committed at an offset is the same for every replica, and for ever."""
    # two final logs that differ where the trace does not say what is committed are S7's matter
    earlier = before("run_id", order=_BY_OFFSET)
    ends = (
        tables.contents.where("committed is not null or covered")
        .withColumns(
            {
                "sure_end": F.max(F.expr("if(committed is null, null, last)")).over(earlier),
                "any_end": F.max("last").over(earlier),
            }
        )
        .withColumn("time_ns", F.col("committed_ns"))
    )
    return [
        Wrong(
            ends,
            f"concat('offset ', base, ' was committed with another content than ', {IS_BATCH})",
            "sure_end >= base or (committed is not null and any_end >= base)",
        )
    ]


@transform("S10", rest="that a follower cuts nothing that its leader has")
def no_committed_truncation(tables: Tables) -> Sequence[Wrong]:
    """No truncation, no restart and no snapshot removes a record that is committed."""
    reaches = (
        "case type when 'trunc' then end_before when 'snap' then end_before"
        " else if(log_end < flushed_before, flushed_before, null) end"
    )
    cuts = (
        tables.events.where(
            "known and end_before is not null and (type in ('start', 'snap')"
            " or (type = 'trunc' and (hwm_before is null or truncated_to >= hwm_before)))"
        )
        .withColumns(
            {
                "low": F.expr("coalesce(truncated_to, snapshot_end, log_end)"),
                "high": F.expr(reaches),
            }
        )
        .where("high is not null")
        .select(
            *(*REPLICA, "node", "type", "time_ns", "low", "high"),
            F.col("ord").alias("until"),
            F.col("epoch").alias("follows"),
        )
    )
    gone = (
        tables.lives.where("until is not null")
        .select(*REPLICA, "until", *BATCH)
        .join(cuts.hint(SMALL), [*REPLICA, "until"])
        .where("last >= low and last < high")
    )
    committed = tables.contents.where("committed is not null").select(
        "run_id", *BATCH, "committed", "committed_in"
    )
    # Who follows an older leader counts in no majority of a newer epoch.
    lost = committed.join(gone.hint(SMALL), ["run_id", *BATCH]).where(
        "committed < until and (type <> 'trunc' or committed_in <= follows)"
    )
    firsts = lost.groupBy(*REPLICA, "node", "until", "type", "low").agg(
        F.min("base").alias("base"), F.min("time_ns").alias("time_ns")
    )
    return [
        Wrong(
            tables.events,
            "concat('n', node, ' truncated its log to ', truncated_to, ', below its high watermark"
            " ', hwm_before)",
            "type = 'trunc' and truncated_to < hwm_before",
        ),
        Wrong(
            firsts,
            "concat('n', node, ' lost the committed offset ', base, ' by a ',"
            " case type when 'trunc' then 'truncation' when 'snap' then 'snapshot'"
            " else 'restart' end, ' to ', low)",
        ),
    ]


@transform("S11")
def leader_completeness(tables: Tables) -> Sequence[Wrong]:
    """The winner of an epoch has all that leaders of earlier epochs have committed."""
    wins = tables.events.where("type = 'elected' and known and end_before is not null").select(
        *REPLICA,
        "node",
        F.col("ord").alias("won"),
        F.col("epoch").alias("won_epoch"),
        "end_before",
        F.coalesce("start_before", F.lit(0)).alias("start_before"),
        "time_ns",
    )
    due = (
        tables.contents.where("committed is not null")
        .select("run_id", *BATCH, "committed", "committed_in")
        .join(wins.hint(SMALL), "run_id")
        .where("committed < won and committed_in < won_epoch and base >= start_before")
        .select(*REPLICA, "node", "won", "won_epoch", "time_ns", "end_before", *BATCH)
    )
    held = tables.lives.join(wins.select(*REPLICA).hint(SMALL), [*REPLICA], "left_semi").select(
        *REPLICA, *BATCH, F.col("ord").alias("since"), "until"
    )
    same = " and ".join(f"due.{column} = held.{column}" for column in (*REPLICA, *BATCH))
    has = F.expr(f"{same} and since < won and coalesce(until >= won, true)")
    lacks = due.alias("due").join(held.alias("held").hint(SMALL), has, "left_anti")
    # nothing there, or another batch: where the trace tells of neither nothing is concluded
    others = held.selectExpr(
        "run_id as other_run",
        "replica as other_replica",
        *("base as other_base", "last as other_last", "since", "until"),
    )
    instead = F.expr(
        "run_id = other_run and replica = other_replica and base < end_before and since < won"
        " and coalesce(until >= won, true) and base between other_base and other_last"
    )
    firsts = (
        lacks.join(others.hint(SMALL), instead, "left")
        .where("base >= end_before or other_base is not null")
        .groupBy(*REPLICA, "node", "won_epoch")
        .agg(F.min("base").alias("base"), F.min("time_ns").alias("time_ns"))
    )
    return [
        Wrong(
            firsts,
            "concat('n', node, ' won epoch ', won_epoch, ' without the committed offset ', base)",
        )
    ]


@transform("S12", rest="what the LeaderChange record of an epoch says")
def leader_append_only(tables: Tables) -> Sequence[Wrong]:
    """A leader appends at its log end, first of all a control batch, and cuts nothing."""
    wrote = "known and source = 'leader'"
    return [
        Wrong(
            tables.lives,
            "concat('n', node, ' wrote a batch of epoch ', batch_epoch,"
            " ' without leading that epoch')",
            f"{wrote} and not leads_before <=> batch_epoch",
        ),
        Wrong(
            tables.lives,
            "concat('n', node, ' wrote a batch at offset ', base, ', but its log ended at ',"
            " end_before)",
            f"{wrote} and base != end_before",
        ),
        Wrong(
            tables.lives,
            "concat('n', node, ' began its reign of epoch ', batch_epoch,"
            " ' with a batch that is no control batch')",
            f"{wrote} and not control and began = base",
        ),
        Wrong(
            tables.events,
            "concat('n', node, if(type = 'trunc', ' cut its log', ' installed a snapshot'),"
            " ' while it led epoch ', leads_before)",
            "known and type in ('trunc', 'snap') and leads_before is not null",
        ),
    ]
