"""S14, S15, S17, S21: high watermarks, acknowledgements and claims."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.base import Tables, Wrong, before, transform


@transform("S14")
def current_epoch_commit(tables: Tables) -> Sequence[Wrong]:
    """The first high watermark that a leader exposes covers a record of its own epoch."""
    return [
        Wrong(
            tables.events,
            "concat('n', node, ' exposed high watermark ', high_watermark, ' in epoch ', epoch,"
            " ', which it began at offset ', began)",
            "type = 'hwm' and (high_watermark <= began"
            " or (known and high_watermark > began and held_epoch != epoch))",
        )
    ]


@transform("S15", rest="that a follower's high watermark is not above every leader's so far")
def monotonic_high_watermark(tables: Tables) -> Sequence[Wrong]:
    """A high watermark never falls, within a process nor from one leader to the next."""
    epochs = (
        tables.events.where("type = 'hwm' and exposed_as = 'leader'")
        .groupBy("run_id", "epoch")
        .agg(
            F.min("high_watermark").alias("low"),
            F.min_by("time_ns", "high_watermark").alias("time_ns"),
            F.max("high_watermark").alias("high"),
        )
    )
    earlier = before("run_id", order=["epoch"])
    behind = epochs.withColumn("before", F.max(F.struct("high", "epoch")).over(earlier))
    return [
        Wrong(
            tables.events,
            "concat('the high watermark of n', node, ' fell from ', hwm_before, ' to ',"
            " high_watermark)",
            "type = 'hwm' and high_watermark < hwm_before",
        ),
        Wrong(
            tables.events,
            "concat('the high watermark ', high_watermark, ' of n', node, ' is above its log end ',"
            " end_before)",
            "type = 'hwm' and known and exposed_as != 'leader' and high_watermark > end_before",
        ),
        Wrong(
            behind,
            "concat('the leader of epoch ', before.epoch, ' exposed high watermark ', before.high,"
            " ', that of the later epoch ', epoch, ' only ', low)",
            "before.high > low",
        ),
    ]


@transform(
    "S17", rest="what became of each acknowledged op; AddVoter that asks for an early answer"
)
def acknowledged_after_commit(tables: Tables) -> Sequence[Wrong]:
    """A write is acknowledged only after the high watermark passed its last record."""
    return [
        Wrong(
            tables.events,
            "concat('n', node, ' acknowledged offset ', offset, ' at high watermark ',"
            " acknowledged_at, '; the highest it had exposed was ', hwm_before)",
            "type = 'ack' and offset >= 0 and not api <=> 'AddVoter'"
            " and (acknowledged_at is null or acknowledged_at <= offset"
            " or (known and coalesce(hwm_before <= offset, true)))",
        )
    ]


@transform("S21", rest="what a controller goes by that has renounced")
def claim_after_catch_up(tables: Tables) -> Sequence[Wrong]:
    """A controller is active only while its node leads, and has applied its own epoch's start."""
    return [
        Wrong(
            tables.events,
            "concat('the controller of n', node, ' became active in epoch ', epoch,"
            " ', which n', node, ' does not lead')",
            "type = 'claim' and known and (not leads_before <=> epoch or began is null)",
        ),
        Wrong(
            tables.events,
            "concat('the controller of n', node, ' became active in epoch ', epoch,"
            " ', which began at offset ', began, ', having applied ', applied)",
            "type = 'claim' and known and leads_before <=> epoch and applied <= began",
        ),
        Wrong(
            tables.events,
            "concat('the active controller of n', node, ' loaded a snapshot')",
            "type = 'snap' and active",
        ),
    ]
