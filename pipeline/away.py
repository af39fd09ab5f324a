"""Does a job of a crew in a task of a Spark executor, on whatever machine that is.

It is imported there before anything else of ours, and needs the standard library only: what a job
imports comes with it (``pipeline.luggage``), and is put on the path here.
"""

from __future__ import annotations

import ctypes
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1  # Linux, linux/prctl.h
SCRATCH = "krucible-task-"  # begins the name of a task's folder


def do(payload: bytes, luggage: Sequence[str]) -> Iterator[tuple[Any, list[Any]]]:
    """Do a pickled ``harness.processes.crew.Job`` in a process of its own.

    Gives what it says, each with the runs stored since (``harness.store.parcels.Parcel``), and at
    last why it ended: None, or what broke it. Stores lie in a folder that is gone afterwards.

    Args:
        payload: The job.
        luggage: Names of the archives that were sent along; none where the driver's own packages
            are at hand.
    """
    from pyspark import SparkFiles  # noqa: PLC0415 - only an executor has it set up

    _put_on_path(SparkFiles.get(name) for name in luggage)
    from harness.processes.crew import Said, work_off  # noqa: PLC0415 - it came along
    from harness.store.folder import Store, stores_in  # noqa: PLC0415 - likewise
    from harness.store.parcels import packed  # noqa: PLC0415 - likewise

    # Spark removes its folder when the application is over, also after an executor's death
    home = SparkFiles.getRootDirectory()
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=home) as folder:
        store = Store(Path(folder))
        with stores_in(store.root):
            job = pickle.loads(payload)  # noqa: S301 - the driver's own
        for told in work_off([replace(job, work=partial(_bound, job.work))], 1):
            yield told.value if isinstance(told, Said) else told.broken, packed(store)


def _bound(work: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Do some work in a process that is killed when its parent, which Spark may kill, is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    yield from work()


def _put_on_path(folders: Iterable[str]) -> None:
    for folder in folders:
        if folder not in sys.path:
            sys.path.insert(0, folder)
