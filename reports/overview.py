"""The first picture of a big run: ops counted by time, client and latency, before any is read.

The page draws a run of millions of ops from counts. It works them out itself, as fine as the
screen can show them, when it has read the ops; these coarse ones stand until then.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from reports.columns import pack, squeeze
from reports.model import Block
from reports.op_table import OPEN, OpTable
from reports.ops import OUTCOMES
from reports.text import clean

FROM_OPS = 200_000  # fewer are read at once
BINS = 1024
WIDE_LANES = 64  # with more clients than that the bins are wider
LATENCY_ROWS = 64  # of the cloud, as in the script
RATE_STEP_US = 100_000  # in shorter bins a rate is a matter of luck
RATE_BINS_MAX = 65_536


def rate_step(end_us: int) -> int:
    """The length of the bins in which completions are counted, in µs: a power of ten."""
    step = RATE_STEP_US
    while end_us // step > RATE_BINS_MAX:
        step *= 10
    return step


def latency_range(table: OpTable) -> tuple[int, int]:
    """The decades that all latencies lie in, in µs, so that panning does not move the scale."""
    low = high = 0
    for latency_ns in table.latencies():
        us = max(1, latency_ns // 1000)
        low = us if not low or us < low else low
        high = max(high, us)
    if not high:
        return 1, 10
    bottom = 10 ** (len(str(low)) - 1)
    top = 10 ** (len(str(high)) - 1)
    top = top if top == high else top * 10
    return bottom, max(top, bottom * 10)


def head(
    table: OpTable, lanes: Sequence[int], blocks: Sequence[Block], end_us: int
) -> dict[str, Any]:
    """Tell what the script knows of the ops before it reads the blocks; the overview of many."""
    latency = latency_range(table)
    return {
        "n": len(table),
        "blocks": [block.head() for block in blocks],
        "lanes": list(lanes),
        "processes": [clean(process, limit=40) for process in table.processes],
        "texts": table.texts.texts,
        "fs": sorted(set(table.f)),
        "nodes": sorted(set(table.node)),
        "latency": list(latency),
        "rateStep": rate_step(end_us),
        "overview": overview(table, lanes, end_us, latency) if len(table) >= FROM_OPS else None,
    }


def overview(
    table: OpTable, lanes: Sequence[int], end_us: int, latency: tuple[int, int]
) -> dict[str, Any]:
    """Counts for the script.

    ``lanes`` by client, outcome and bin of the start; ``cloud`` by outcome, row of latency and
    that bin; ``rate`` by outcome and bin of the completion. Each is ``[planes, base64]`` as a
    column of ``reports.columns``. A bin is ``by`` µs long.
    """
    height = max(lanes, default=0) + 1
    bins = BINS if height <= WIDE_LANES else BINS // 4
    by = max(end_us, 1) / bins
    step = rate_step(end_us)
    rate_bins = end_us // step + 1
    outcomes = len(OUTCOMES)
    clients = array("Q", bytes(8 * height * outcomes * bins))
    cloud = array("Q", bytes(8 * outcomes * LATENCY_ROWS * bins))
    rate = array("Q", bytes(8 * outcomes * rate_bins))
    low = latency[0]
    scale = LATENCY_ROWS / math.log(latency[1] / low)
    rows = zip(table.start, table.end, table.outcome, table.process, strict=True)
    for start, end, outcome, process in rows:
        at = min(int(start / 1000 / by), bins - 1)
        clients[(lanes[process] * outcomes + outcome) * bins + at] += 1
        if end == OPEN:
            continue
        us = max(low, end // 1000 - start // 1000)
        row = min(LATENCY_ROWS - 1, int(math.log(us / low) * scale))
        cloud[(outcome * LATENCY_ROWS + row) * bins + at] += 1
        rate[outcome * rate_bins + min(end // 1000 // step, rate_bins - 1)] += 1
    return {
        "bins": bins,
        "by": by,
        **{
            name: [count, squeeze(data)]
            for name, counts in (("lanes", clients), ("cloud", cloud), ("rate", rate))
            for count, data in (pack(counts),)
        },
    }
