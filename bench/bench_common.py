"""What the benches share: a folder that is always removed, medians, tables."""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

FSYNC_SAMPLES = 300
FSYNC_BYTES = 256
RESAMPLES = 2_000


def say(line: str) -> None:
    """Progress, for people."""
    print(line, file=sys.stderr, flush=True)


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


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))]


def ratio(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """Ratio of the means, and the 90 % interval that resampling (bootstrap) gives it."""
    rng = Random(1)
    drawn = [
        statistics.fmean(rng.choices(over, k=len(over)))
        / statistics.fmean(rng.choices(under, k=len(under)))
        for _ in range(RESAMPLES)
    ]
    value = statistics.fmean(over) / statistics.fmean(under)
    return value, percentile(drawn, 5), percentile(drawn, 95)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns: the first to the left, all others to the right."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])
