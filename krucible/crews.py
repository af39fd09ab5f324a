"""Chooses who plays simulations: processes of this machine, or executors of a Spark cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import UsageError
from harness.processes.crew import Crew, Local
from harness.store.folder import Store
from krucible.quantities import whole

JOBS_MAX = 256
CACHE = Path(".cache") / "krucible"  # in the home folder
KEPT = 10  # runs of one way to fail that come back from a cluster

Jobs = Annotated[
    int | None,
    whole("Simulations at a time (default: one per CPU).", least=1, most=JOBS_MAX),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master to simulate on: local[N], or spark://HOST:PORT, yarn or "
        "k8s://... of a cluster (default: processes of this machine).",
        show_default=False,
    ),
]


@contextmanager
def crew(
    jobs: int | None,
    master: str | None,
    store: Store | None = None,
    way: Callable[[Any], str | None] = lambda _: None,
    *,
    kept: int = KEPT,
) -> Iterator[Crew]:
    """Give whoever simulates; raises UsageError when both are asked for, or Spark is not there.

    Args:
        jobs: Simulations at a time on this machine.
        master: Of a Spark cluster instead.
        store: The store of runs, for those that a cluster sends back; None: none come.
        way: Names how what a job said failed, so that not all runs of one way come back.
        kept: So many of each way come back.
    """
    if master is None:
        yield Local(jobs or os.cpu_count() or 1)
        return
    if jobs is not None:
        raise UsageError("--jobs and --master: want one of them; a cluster has its own processors")
    try:
        from pipeline.crew import spark_crew  # noqa: PLC0415 - an extra brings Spark
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--master needs {error.name}: install krucible with its extra [spark]"
        ) from error
    with spark_crew(master, store, kept=kept, way=way, cache=Path.home() / CACHE) as there:
        yield there
