"""The disk that is measured: a folder that is always removed, and what an fsync takes there."""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.support.figures import percentile

FSYNC_SAMPLES = 300
FSYNC_BYTES = 256


def add_dir(parser: argparse.ArgumentParser) -> None:
    """The option that says on which disk to measure."""
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="a folder on the disk to measure, left clean (default: %(default)s)",
    )


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """A new folder, gone at the end, also after SIGINT and SIGTERM."""

    def end(*_: object) -> None:  # as ^C: asyncio then ends its tasks, and they their nodes
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with tempfile.TemporaryDirectory(
            prefix="krucible-bench-", dir=parent, ignore_cleanup_errors=True
        ) as name:
            yield Path(name).resolve()
    finally:
        signal.signal(signal.SIGTERM, before)


def fsync_us(folder: Path) -> tuple[float, float]:
    """Latency of an append and fdatasync in ``folder``: median and 99th percentile, in us."""
    samples = []
    path = folder / "fsync"
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNC_SAMPLES):
            file.write(b"x" * FSYNC_BYTES)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - began) * 1e6)
    path.unlink()
    return statistics.median(samples), percentile(samples, 99)
