"""Windows over the events of replicas, and the columns that replicas and batches are known by."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - its usual name

REPLICA: Final = ("run", "node", "dir")
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
