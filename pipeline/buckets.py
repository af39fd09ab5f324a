"""Tables whose rows lie by run in a known number of buckets: what joins by run, moves nothing.

A bucket is what one task wrote, and Spark's hash of a run's number says which one has its rows. So
a window, a join or an aggregation by run, or by anything finer, finds its rows together.
"""

from __future__ import annotations

import shutil
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

    def at(self, path: Path, schema: StructType) -> DataFrame:
        """A table that tasks wrote, one file each, named by their number (``pipeline.parts``)."""
        path.mkdir(parents=True, exist_ok=True)
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema)
        where = str(path.absolute()).replace("\\", "\\\\").replace("'", "\\'")
        name = self._name()
        self._spark.sql(
            f"create table {name} ({columns}) using parquet clustered by ({BY})"
            f" into {self._count} buckets location '{where}'"
        )
        return self._spark.table(name)

    def keep(self, found: DataFrame) -> DataFrame:
        """Write what many read, once: plans then begin there, and not where it came from."""
        name = self._name()
        path = self._scratch / name
        writer = found.write.format("parquet").option("path", str(path.absolute()))
        writer.mode("overwrite").bucketBy(self._count, BY).saveAsTable(name)
        return self._spark.table(name)

    def close(self) -> None:
        """Forget the tables, and remove what was only written meanwhile."""
        for name in self._names:
            self._spark.sql(f"drop table if exists {name}")
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _name(self) -> str:
        self._names.append(f"bucketed_{id(self)}_{len(self._names)}")
        return self._names[-1]
