"""What transforms share: the registry, the tables that they read, and who is known when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms import logs
from pipeline.transforms.windows import BATCH, ORDER, REPLICA


@dataclass(frozen=True, slots=True)
class Transformed:
    """An invariant that is judged by a transform.

    ``whole``: the transform judges all of it. Otherwise ``rest`` says what is left to the checker
    of single runs, and both are heard.
    """

    name: str
    says: str
    judge: Callable[[Tables], DataFrame]
    rest: str | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left to the checker of single runs."""
        return self.rest is None


TRANSFORMS: dict[str, Transformed] = {}


def transform(
    name: str, *, rest: str | None = None
) -> Callable[[Callable[[Tables], DataFrame]], Callable[[Tables], DataFrame]]:
    """Let a function judge the invariant of that name."""

    def add(function: Callable[[Tables], DataFrame]) -> Callable[[Tables], DataFrame]:
        says = (function.__doc__ or "").splitlines()[0]
        TRANSFORMS[name] = Transformed(name, says, function, rest)
        return function

    return add


class Tables:
    """What transforms read: EVENTS, and BATCHES of the final logs; and views that several need.

    Where all rows of a run are together, nothing need be moved. ``keep`` writes what many read, in
    the order that it is told.
    """

    def __init__(
        self,
        events: DataFrame,
        batches: DataFrame,
        keep: Callable[[DataFrame, Sequence[str]], DataFrame],
    ) -> None:
        self.events = events
        self.finals = batches.where("final")
        self._keep = keep

    @cached_property
    def states(self) -> DataFrame:
        """See ``logs.states``; kept, for many read it."""
        return self._keep(logs.states(self.events), ORDER)

    @cached_property
    def lives(self) -> DataFrame:
        """See ``logs.lives``; kept."""
        return self._keep(logs.lives(self.states), ORDER)

    @cached_property
    def committed(self) -> DataFrame:
        """See ``logs.commits``; kept."""
        return self._keep(logs.commits(self.states, self.lives), ())

    @property
    def appends(self) -> DataFrame:
        """See ``logs.appends``."""
        return logs.appends(self.lives)

    @property
    def final_pairs(self) -> DataFrame:
        """See ``logs.final_pairs``."""
        return logs.final_pairs(self.finals)

    @cached_property
    def commit_map(self) -> DataFrame:
        """Every batch that is committed anywhere, with when first, and in which epoch."""
        return (
            self.committed.groupBy("run_id", *BATCH)
            # of numbers, which are aggregated by hash; the least struct would be found by a sort
            .agg(F.min("by.at").alias("committed"), F.min_by("by.epoch", "by.at").alias("by_epoch"))
        )

    @cached_property
    def epoch_starts(self) -> DataFrame:
        """Where the epochs that replicas have won begin: ``start``, told at ``began``."""
        return (
            self.of("elected")
            .groupBy(*REPLICA, "epoch")
            .agg(F.min("ord").alias("began"), F.max_by("epoch_start", "ord").alias("start"))
        )

    def of(self, *types: str) -> DataFrame:
        """The events of some types."""
        return self.events.where(F.col("type").isin(*types))


def told(found: DataFrame, message: str) -> DataFrame:
    """Rows of a transform: ``message`` is an SQL expression of its sentence."""
    return found.select("run_id", F.expr(message).alias("message"), "time_ns")


def together(parts: Sequence[DataFrame]) -> DataFrame:
    """All rows of several transforms."""
    found = parts[0]
    for each in parts[1:]:
        found = found.unionByName(each)
    return found


def overlaps(batches: DataFrame, *by: str) -> DataFrame:
    """Batches that begin before another one of their group ends, with that other's end as ``end``.

    The batches of a group must be distinct.
    """
    earlier = (
        Window.partitionBy(*by)
        .orderBy("base", "last", "crc", "batch_epoch")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return batches.withColumn("end", F.max("last").over(earlier)).where("end >= base")


def judge_all(tables: Tables) -> DataFrame:
    """All that any transform finds: (run_id, invariant, message, time_ns)."""
    return together(
        [
            each.judge(tables).select(
                "run_id", F.lit(name).alias("invariant"), "message", "time_ns"
            )
            for name, each in sorted(TRANSFORMS.items())
        ]
    )
