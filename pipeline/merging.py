"""Merges the batches of many small analyses into one, so that a year of nights is few files.

Each analysis leaves a folder of small files in every table. When many small batches follow each
other they become one, whose rows are those of theirs that count. So a store has a dozen small
batches at most, beside its big ones. A merged batch is merged again until it is big; then it stays.

A merged batch counts from the moment when its manifest appears, and then those that it was made of
count no more. One that is cut short does not count, and nothing is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.layout import MANIFEST, Layout
from pipeline.schemas import TABLES, spark_schema
from pipeline.spark import for_little
from pipeline.summary import read_again, readings, rows_that_count

LITTLE_BYTES = 16 << 20  # of a table: less is not worth compiling a plan


@dataclass(frozen=True, slots=True)
class Sizes:
    """When batches are merged."""

    many: int = 12  # small batches one after the other
    big_bytes: int = 2 << 30  # of all tables of a batch: such a one stays as it is
    file_bytes: int = 128 << 20  # of a file of a merged batch


def due(layout: Layout, sizes: Sizes) -> list[int]:
    """The batches to merge now, oldest first: the first of many small ones in a row; or none."""

    def is_small(batch: int) -> bool:
        return sum(_bytes(layout, table, [batch]) for table in TABLES) < sizes.big_bytes

    for small, row in groupby(layout.batches(), is_small):
        found = list(row)
        if small and len(found) >= sizes.many:
            return found
    return []


def merge(spark: SparkSession, layout: Layout, batches: Sequence[int], sizes: Sizes) -> int:
    """Make one batch of these, which follow each other; gives its number.

    The old batches are removed when the new one counts.
    """
    into = batches[-1] + 1
    last = readings(spark, layout, batches)
    counted = last if read_again(spark, layout, batches) else None  # most often all rows count
    for table in TABLES:
        if table == MANIFEST:
            continue
        size = _bytes(layout, table, batches)
        for_little(spark, little=size < LITTLE_BYTES)
        found = rows_that_count(spark, layout, table, batches, counted)
        if found is not None:
            _write(found.drop("batch"), -(-size // sizes.file_bytes), layout.table(table, into))
    manifest = last.select("run", "fingerprint", F.lit(into).cast("long").alias("batch"))
    _write(manifest.select(*spark_schema(TABLES[MANIFEST]).names), 1, layout.draft)
    layout.commit_merged(into, batches[0])
    layout.clear()
    return into


def _write(found: DataFrame, files: int, path: Path) -> None:
    found.coalesce(max(1, files)).write.mode("overwrite").parquet(str(path.absolute()))


def _bytes(layout: Layout, table: str, batches: Sequence[int]) -> int:
    size = 0
    for path in layout.paths(table, batches):
        with os.scandir(path) as entries:
            size += sum(entry.stat().st_size for entry in entries if entry.is_file())
    return size
