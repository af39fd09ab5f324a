"""Windows over the events of replicas, and the columns that replicas and batches are known by.

What a replica goes through in its order, one after the other (its incarnations, its logs), is no
window of its own, which would be sorted anew: ``Within`` looks back no further than it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - its usual name

REPLICA: Final = ("run_id", "replica")
SMALL: Final = "shuffle_hash"  # a hint: this side of a join is looked up, nothing is sorted
ORDER: Final = (*REPLICA, "ord")  # events lie in it, so that windows over replicas sort nothing
BATCH: Final = ("base", "last", "batch_epoch", "crc")


def in_order(*by: str) -> WindowSpec:
    """Each replica's events in their order; or those of another partition."""
    return Window.partitionBy(*(by or REPLICA)).orderBy("ord")


def so_far(*by: str) -> WindowSpec:
    """From the first up to this one."""
    return in_order(*by).rowsBetween(Window.unboundedPreceding, 0)


def before(*by: str) -> WindowSpec:
    """From the first up to the one before."""
    return in_order(*by).rowsBetween(Window.unboundedPreceding, -1)


def newest(column: Column, window: WindowSpec) -> Column:
    """The last value that is not null."""
    return F.last(column, ignorenulls=True).over(window)


@dataclass(frozen=True, slots=True)
class Within:
    """The newest ``value`` of the part that a row is in, or what ``of`` makes of those so far.

    ``parts`` are columns that rise with the order, one within the other; ``window`` is one by
    replica, and so is sorted already; ``of`` is ``F.max``, or an aggregation that rises likewise.
    """

    parts: Sequence[str]
    value: Column
    window: WindowSpec
    of: Callable[[Column], Column] = lambda column: F.last(column, ignorenulls=True)

    def found(self) -> Column:
        """The newest part that has a value, with it."""
        both = F.struct(F.struct(*self.parts).alias("part"), self.value.alias("value"))
        return self.of(F.when(self.value.isNotNull(), both)).over(self.window)


def with_parts(rows: DataFrame, columns: Mapping[str, Within]) -> DataFrame:
    """Rows with more columns; null where the part has no value so far."""
    made = {name: f"{name}_found" for name in columns}
    found = rows.withColumns({made[name]: each.found() for name, each in columns.items()})
    return found.withColumns(
        {
            name: F.when(
                F.col(made[name])["part"] == F.struct(*each.parts), F.col(made[name])["value"]
            )
            for name, each in columns.items()
        }
    ).drop(*made.values())
