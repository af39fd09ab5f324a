"""Figures and how they are shown: progress, percentiles, ratios, tables."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from random import Random

RESAMPLES = 2_000


def say(line: str) -> None:
    """Progress, for people."""
    print(line, file=sys.stderr, flush=True)


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


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """Ratio of sums of what was measured turn by turn, and the 90 % interval of its bootstrap.

    Turns are drawn as pairs, so that what slows down both of a turn does not count.
    """
    rng = Random(1)
    turns = range(len(over))
    drawn = []
    for _ in range(RESAMPLES):
        chosen = rng.choices(turns, k=len(turns))
        drawn.append(sum(over[at] for at in chosen) / sum(under[at] for at in chosen))
    return sum(over) / sum(under), percentile(drawn, 5), percentile(drawn, 95)


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
