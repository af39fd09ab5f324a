"""S14, S15, S17, S21: high watermarks, acknowledgements and claims."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.base import Tables, told, transform
from pipeline.transforms.base import together as union
from pipeline.transforms.windows import BATCH, REPLICA, SMALL, before, newest


@transform("S14")
def current_epoch_commit(tables: Tables) -> DataFrame:
    """The first high watermark that a leader exposes covers a record of its own epoch."""
    order = Window.partitionBy(*REPLICA, "epoch").orderBy("ord")
    first = (
        tables.states.where("type = 'hwm' and exposed_as = 'leader' and began_before is not null")
        .withColumn("nth", F.row_number().over(order))
        .where("nth = 1")
        .withColumnRenamed("began_before", "start")
        .select(*REPLICA, "node", "ord", "epoch", "known", "time_ns", "high_watermark", "start")
    )
    held = tables.lives.select(*REPLICA, F.col("ord").alias("since"), "until", *BATCH)
    foreign = held.join(
        first.where("known and high_watermark > start").hint(SMALL), [*REPLICA]
    ).where(
        "since < ord and coalesce(until >= ord, true) and batch_epoch != epoch"
        " and high_watermark - 1 between base and last"
    )
    columns = [*REPLICA, "node", "epoch", "high_watermark", "start", "time_ns"]
    found = first.where("high_watermark <= start").select(*columns)
    return told(
        found.unionByName(foreign.select(*columns)),
        "concat('n', node, ' exposed high watermark ', high_watermark, ' in epoch ', epoch,"
        " ', which it began at offset ', start)",
    )


@transform("S15", rest="that a follower's high watermark is not above every leader's so far")
def monotonic_high_watermark(tables: Tables) -> DataFrame:
    """A high watermark never falls, within a process nor from one leader to the next."""
    marks = tables.states.where("type = 'hwm'")
    fell = marks.where("high_watermark < hwm_before")
    above = marks.where("known and exposed_as != 'leader' and high_watermark > end_before")
    epochs = (
        marks.where("exposed_as = 'leader'")
        .groupBy("run_id", "epoch")
        .agg(
            F.min(F.struct("high_watermark", "time_ns")).alias("low"),
            F.max("high_watermark").alias("high"),
        )
    )
    earlier = (
        Window.partitionBy("run_id").orderBy("epoch").rowsBetween(Window.unboundedPreceding, -1)
    )
    behind = (
        epochs.withColumn("before", F.max(F.struct("high", "epoch")).over(earlier))
        .where("before.high > low.high_watermark")
        .withColumn("time_ns", F.expr("low.time_ns"))
    )
    return union(
        [
            told(
                fell,
                "concat('the high watermark of n', node, ' fell from ', hwm_before, ' to ',"
                " high_watermark)",
            ),
            told(
                above,
                "concat('the high watermark ', high_watermark, ' of n', node,"
                " ' is above its log end ', end_before)",
            ),
            told(
                behind,
                "concat('the leader of epoch ', before.epoch, ' exposed high watermark ',"
                " before.high, ', that of the later epoch ', epoch, ' only ',"
                " low.high_watermark)",
            ),
        ]
    )


@transform(
    "S17", rest="what became of each acknowledged op; AddVoter that asks for an early answer"
)
def acknowledged_after_commit(tables: Tables) -> DataFrame:
    """A write is acknowledged only after the high watermark passed its last record."""
    early = tables.states.where("type = 'ack' and offset >= 0 and not api <=> 'AddVoter'").where(
        "acknowledged_at is null or acknowledged_at <= offset"
        " or (known and coalesce(hwm_before <= offset, true))"
    )
    return told(
        early,
        "concat('n', node, ' acknowledged offset ', offset, ' at high watermark ',"
        " acknowledged_at, '; the highest it had exposed was ', hwm_before)",
    )


@transform("S21")
def claim_after_catch_up(tables: Tables) -> DataFrame:
    """A controller is active only while its node leads, and has applied its own epoch's start."""
    claims = tables.states.where("type = 'claim' and known").withColumnRenamed(
        "began_before", "start"
    )
    not_leading = claims.where("not leads_before <=> epoch or start is null")
    too_early = claims.where("leads_before <=> epoch and applied <= start")
    turns = tables.states.where(
        "type in ('claim', 'renounce', 'start') or (type = 'snap' and snapshot_op = 'install')"
    )
    active = newest(F.expr("if(type = 'snap', null, type)"), before(*REPLICA))
    loaded = turns.withColumn("last_turn", active).where("type = 'snap' and last_turn = 'claim'")
    return union(
        [
            told(
                not_leading,
                "concat('the controller of n', node, ' became active in epoch ', epoch,"
                " ', which n', node, ' does not lead')",
            ),
            told(
                too_early,
                "concat('the controller of n', node, ' became active in epoch ', epoch,"
                " ', which began at offset ', start, ', having applied ', applied)",
            ),
            told(loaded, "concat('the active controller of n', node, ' loaded a snapshot')"),
        ]
    )
