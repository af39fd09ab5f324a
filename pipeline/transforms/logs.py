"""What each replica's log held when, from its events: no batch is replayed, only its end is found.

A batch lives in a log from its append until the first later event of the replica that cuts the log
at or below its last offset: a truncation, a conflicting append, a start with a shorter log, an
installed snapshot, damage to the disk.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.windows import (
    BATCH,
    REPLICA,
    SMALL,
    Within,
    before,
    in_order,
    newest,
    so_far,
    with_parts,
)

NOTHING = -1  # an end that is not known, or a cut that leaves nothing
_LOG_TYPES = (
    *("start", "disk", "append", "trunc", "snap", "flush", "lstart", "hwm", "elected"),
    *("role", "apply", "claim", "renounce", "ack"),
)
_LOG = (*REPLICA, "log")
_SETS = "type in ('start', 'flush', 'snap', 'disk')"  # what says how much is on disk
# Of these what somebody reads: all else would be kept in vain.
_COLUMNS = (
    *(*REPLICA, "node", "inc", "ord", "type", "epoch", "time_ns", "known", "era", "leader", "role"),
    *(*BATCH, "source", "control", "truncated_to", "high_watermark", "exposed_as", "offset"),
    *("acknowledged_at", "applied", "snapshot_op", "api", "log_end", "flushed", "log_start"),
    *("snapshot_end", "epoch_start"),
)


def states(events: DataFrame) -> DataFrame:
    """Events that meet a log, with what the log was just before them; null: not known.

    ``log`` numbers the logs of a replica: another one begins when its disk is damaged, or after
    events were lost. ``end_before`` is its end, ``cut`` where the event cuts it, ``hwm_before``
    the highest watermark that this incarnation has exposed, ``leads_before`` the epoch that it
    leads, ``began_before`` where the event's epoch begins, if it won that; ``start_before`` where
    the log begins, ``flushed_before`` how much is on disk.
    """
    met = events.where(F.col("type").isin(*_LOG_TYPES)).select(*_COLUMNS)
    logs = met.where("type != 'snap' or snapshot_op = 'install'").withColumns(
        {
            "log": F.expr("count_if(type = 'disk')").over(so_far()) * 100_000 + F.col("era"),
            "span": F.expr(f"count_if({_SETS})").over(so_far()),
        }
    )
    end = F.expr(
        "case type when 'start' then log_end when 'append' then last + 1"
        " when 'trunc' then truncated_to when 'snap' then snapshot_end end"
    )
    leads = F.expr(
        f"case when type = 'elected' then epoch when type = 'role' and role != 'leader'"
        f" then {NOTHING} end"
    )
    begin = F.expr("case type when 'snap' then snapshot_end else log_start end")
    exposed = F.expr("case type when 'hwm' then high_watermark when 'snap' then snapshot_end end")
    last = {
        "end_before": Within(("log",), end, before()),
        "start_before": Within(("log",), begin, before()),
        "hwm_before": Within(("inc",), exposed, before(), F.max),
        "began_before": Within(("epoch",), F.col("epoch_start"), before()),
        "leads_before": Within(("inc",), leads, before()),
    }
    found = with_parts(logs, last).withColumn(
        "leads_before", F.nullif(F.col("leads_before"), F.lit(NOTHING))
    )
    cut = F.expr(
        "case when type = 'trunc' then truncated_to"
        f" when type = 'snap' or type = 'disk' then {NOTHING}"
        " when type = 'append' and base < end_before then base"
        " when type = 'start' and log_end < end_before then log_end end"
    )
    return _with_flushed(found.withColumn("cut", cut))


def _with_flushed(found: DataFrame) -> DataFrame:
    """Add ``flushed_before``: what was flushed last, or less where the log was cut since."""
    value = F.expr(
        "case type when 'start' then flushed"
        " when 'flush' then least(flushed, coalesce(end_before, flushed))"
        " when 'snap' then snapshot_end when 'disk' then 0 end"
    )
    cuts = F.expr("if(type in ('trunc', 'append'), -cut, null)")
    so_flushed = {
        "set_to": Within(("log", "span"), value, so_far()),
        "cut_to": Within(("log", "span"), cuts, so_far(), F.max),
    }
    after = with_parts(found, so_flushed).withColumn(
        "flushed_after", F.expr("least(set_to, -cut_to)")
    )
    flushed = F.lag(F.struct("log", "flushed_after")).over(in_order())
    return after.withColumn(
        "flushed_before", F.when(flushed["log"] == F.col("log"), flushed["flushed_after"])
    ).drop("span", "set_to", "cut_to", "flushed_after")


def lives(found: DataFrame) -> DataFrame:
    """Batches in the logs of replicas: appended at ``ord``, gone at ``until`` (null: never).

    ``found`` are the ``states``. With ``end_before`` at its append.
    """
    cuts = found.where("cut is not null").select(*REPLICA, F.col("ord").alias("at"), "cut")
    forgets = (
        found.withColumn("changed", F.col("log") != F.lag("log").over(in_order()))
        .where("changed")
        .select(*REPLICA, F.col("ord").alias("at"), F.lit(NOTHING).cast("long").alias("cut"))
    )
    # a replica's are few, and looked through for each of its batches
    by_replica = (
        cuts.unionByName(forgets)
        .groupBy(*REPLICA)
        .agg(F.collect_list(F.struct("at", "cut")).alias("cuts"))
    )
    batches = found.where("type = 'append'").select(
        *REPLICA, "node", "log", "ord", "inc", "known", "epoch", "time_ns", "end_before", *BATCH
    )
    later = "filter(cuts, c -> c.at > ord and c.cut <= last)"
    return (
        batches.join(by_replica.hint(SMALL), [*REPLICA], "left")
        .withColumn("until", F.expr(f"array_min(transform({later}, c -> c.at))"))
        .drop("cuts")
    )


def appends(found: DataFrame) -> DataFrame:
    """Appends with ``tail``: the batch that was the log's last one just before; null: not known.

    Mostly that is what the replica has appended before; only after a cut it must be looked for.
    """
    columns = [*REPLICA, "node", "ord", "known", "epoch", "time_ns", *BATCH]
    last = F.lag(F.struct("until", *BATCH)).over(in_order())
    is_tail = "coalesce(tail.last + 1 = end_before and coalesce(tail.until >= ord, true), false)"
    with_last = found.withColumn("tail", last).withColumn("plain", F.expr(is_tail))
    plain = with_last.where("plain").select(
        *columns, F.struct("tail.base", "tail.last", "tail.batch_epoch", "tail.crc").alias("tail")
    )
    tails = found.select(
        *REPLICA,
        (F.col("last") + 1).alias("end_before"),
        F.struct(*BATCH).alias("tail"),
        F.col("ord").alias("since"),
        "until",
    )
    others = with_last.where("not plain and end_before is not null").drop("until", "tail")
    near = tails.join(others.hint(SMALL), [*REPLICA, "end_before"])
    alive = near.where("since < ord and coalesce(until >= ord, true)")
    return plain.unionByName(alive.select(*columns, "tail"))


def final_pairs(finals: DataFrame) -> DataFrame:
    """Batches of the final logs with the one ``before`` each of them."""
    place = Window.partitionBy("run_id", "node").orderBy("place")
    return (
        finals.withColumn("before", F.lag(F.struct(*BATCH)).over(place))
        .where("before is not null")
        .withColumn("time_ns", F.lit(None).cast("long"))
    )


def commits(found: DataFrame, alive: DataFrame) -> DataFrame:
    """Batches of replicas' logs that these took for committed, each with when: ``by``.

    That is at the first high watermark, or applied offset, above its last offset that came while
    the batch was in that log: mostly in the incarnation that appended it, else in the first later
    one that came so far. Only batches that were appended below a high watermark that their own
    incarnation had been at before are joined with all that followed; they are few.
    """
    raises = found.where("known and type in ('hwm', 'apply')").select(
        *_LOG,
        "inc",
        "ord",
        F.col("epoch").alias("by_epoch"),
        "time_ns",
        F.coalesce("high_watermark", "offset").alias("below"),
    )
    highest = Within(("log", "inc"), F.col("below"), before(), F.max)
    steps = with_parts(raises, {"highest": highest}).where("coalesce(below > highest, true)")
    own = _reached(alive.select(*_LOG, "inc", "ord", "until", *BATCH), steps)
    lasting = own.where("first is null").drop("first")
    reach = steps.groupBy(*_LOG, F.col("inc").alias("later")).agg(F.max("below").alias("reach"))
    next_one = (
        lasting.join(reach, [*_LOG])
        .where("later > inc and reach > last")
        .groupBy(*_LOG, "ord", "until", *BATCH)
        .agg(F.min("later").alias("inc"))
    )
    plain = own.unionByName(_reached(next_one, steps)).where(
        "first.at > ord and coalesce(first.at < until, true)"
    )
    late = (
        own.where("first.at < ord")
        .drop("first", "inc")
        .join(raises.withColumnRenamed("ord", "at"), [*_LOG])
        .where("at > ord and coalesce(at < until, true) and below > last")
        .groupBy(*_LOG, "ord", *BATCH)
        .agg(F.expr("min(struct(at, by_epoch as epoch, time_ns as time))").alias("first"))
    )
    columns = [*REPLICA, *BATCH, "first as by"]
    return plain.selectExpr(*columns).unionByName(late.selectExpr(*columns))


def _reached(batches: DataFrame, steps: DataFrame) -> DataFrame:
    """Batches with ``first``: the first step of the incarnation that covers them; null: none does.

    Its steps rise with their order: the next one by offset is the first one in time.
    """
    by = F.expr("cast(null as struct<at: bigint, epoch: bigint, time: bigint>)")
    rows = batches.withColumns({"key": F.col("last"), "step": F.lit(0), "by": by}).unionByName(
        steps.select(
            *_LOG,
            "inc",
            (F.col("below") - 1).alias("key"),
            F.lit(1).alias("step"),
            F.expr("struct(ord as at, by_epoch as epoch, time_ns as time)").alias("by"),
        ),
        allowMissingColumns=True,
    )
    # from the highest down: to look onwards instead, Spark would go through the rest for each row
    above = (
        Window.partitionBy(*_LOG, "inc")
        .orderBy(F.desc("key"), F.desc("step"))
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    return (
        rows.withColumn("first", newest(F.col("by"), above))
        .where("step = 0")
        .drop("key", "step", "by")
    )
