"""Tells people who wait what Spark is at: the stage of the analysis, and its tasks done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

PERIOD_S = 0.5


@contextmanager
def watched(spark: SparkSession, show: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Show the present stage with its tasks every now and then, until the block ends.

    Gives what is to be told of each new stage.
    """
    stage = ["start"]
    over = threading.Event()

    def look() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(PERIOD_S):
            infos = [tracker.getStageInfo(id_) for id_ in tracker.getActiveStageIds()]
            tasks = [(info.numCompletedTasks, info.numTasks) for info in infos if info is not None]
            done, of = sum(task[0] for task in tasks), sum(task[1] for task in tasks)
            show(f"{stage[0]}: {done} of {of} tasks" if of else stage[0])

    def say(what: str) -> None:
        stage[0] = what
        show(what)

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield say
    finally:
        over.set()
        thread.join()
