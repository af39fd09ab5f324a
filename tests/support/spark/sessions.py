"""One Spark session for all tests of a process: to start one costs seconds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pipeline.spark import for_little, spark_session


@contextmanager
def quiet_session() -> Iterator[SparkSession]:
    """A session of two tasks at a time, with few partitions, for little data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sockets and deprecations within PySpark
        with spark_session(master="local[2]", brief=True) as session:
            session.conf.set("spark.sql.shuffle.partitions", "1")
            for_little(session)
            yield session
