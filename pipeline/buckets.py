"""Tables whose rows lie by run in a known number of buckets: what joins by run, moves nothing.

A bucket is what one task wrote, and Spark's hash of a run's number says which one has its rows. So
a window, a join or an aggregation by run, or by anything finer, finds its rows together; and where
they lie in order, windows over that order sort nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

BY = "run_id"


class Buckets:
    """Bucketed tables of one analysis.

    Args:
        spark: The session, whose catalogue has the tables until ``close``.
        scratch: A folder for tables that are needed only meanwhile; all of a cluster can see it.
        count: How many buckets each table has.
    """

    def __init__(self, spark: SparkSession, scratch: Path, count: int) -> None:
        self._spark = spark
        self._scratch = scratch
        self._count = count
        self._names: list[str] = []

    def at(self, path: Path, schema: StructType, order: Sequence[str] = ()) -> DataFrame:
        """A table that tasks wrote, one file each, named by their number (``pipeline.parts``).

        ``order``: what the rows of each file are sorted by.
        """
        path.mkdir(parents=True, exist_ok=True)
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema)
        where = str(path.absolute()).replace("\\", "\\\\").replace("'", "\\'")
        in_order = f" sorted by ({', '.join(order)})" if order else ""
        name = self._name()
        self._spark.sql(
            f"create table {name} ({columns}) using parquet clustered by ({BY}){in_order}"
            f" into {self._count} buckets location '{where}'"
        )
        return self._spark.table(name)

    def keep(self, found: DataFrame, order: Sequence[str] = ()) -> DataFrame:
        """Write what many read, once: plans then begin there, and not where it came from.

        ``order``: sort its rows by that, unless they are already.
        """
        name = self._name()
        path = self._scratch / name
        rows = found.sortWithinPartitions(*order) if order else found
        writer = rows.write.format("parquet").option("path", str(path.absolute()))
        writer.mode("overwrite").bucketBy(self._count, BY).saveAsTable(name)
        # Spark would sort once more before it wrote a table that says its order
        return self.at(path, found.schema, order) if order else self._spark.table(name)

    def close(self) -> None:
        """Forget the tables, and remove what was only written meanwhile."""
        for name in self._names:
            self._spark.sql(f"drop table if exists {name}")
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _name(self) -> str:
        self._names.append(f"bucketed_{id(self)}_{len(self._names)}")
        return self._names[-1]
