"""The fleet report: many runs on one page that needs nothing but itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from harness.processes.command import KRUCIBLE, Program
from harness.store.folder import write_whole
from reports import text
from reports.command import line
from reports.fleet_model import VERDICTS, Fleet, FleetRun, read_fleet
from reports.html import page

NAME: Final = "fleet.html"
ROWS_MAX: Final = 50_000  # runs in the table; of more the latest
BAR_WIDTH, BARS_HEIGHT = 14, 90


def write_fleet(root: Path, path: Path | None = None, program: Program = KRUCIBLE) -> Path:
    """Write the fleet report of a store, beside its runs when no other place is given."""
    path = root / NAME if path is None else path
    base = Path(os.path.relpath(root, path.parent)).as_posix()
    write_whole(path, render_fleet(read_fleet(root), base=base, program=program).encode())
    return path


def render_fleet(fleet: Fleet, *, base: str = ".", program: Program = KRUCIBLE) -> str:
    """Render one self-contained HTML document; equal fleets give equal text.

    Args:
        fleet: The runs; any text of theirs may be hostile.
        base: The store's root as a link from the page, without a slash at its end.
        program: The command line as a person types it.
    """
    return page(
        "fleet.html",
        styles=("run.css", "fleet.css"),
        scripts=("common.js", "fleet.js"),
        data=_table(fleet, base),
        filters={
            "clean": text.clean,
            "count": text.count,
            "moment": moment,
            "ms": _milliseconds,
            "secs": _seconds,
            "span": _span,
        },
        fleet=fleet,
        verdicts=VERDICTS,
        bars=_bars(fleet),
        base=base,
        link=link,
        again=lambda verb, run: line(program, verb, *(run.words or (run.path,))),
        left_out=max(0, len(fleet.runs) - ROWS_MAX),
    )


def _table(fleet: Fleet, base: str) -> dict[str, Any]:
    """The runs as rows for the script that filters and sorts them."""
    return {
        "columns": ["began", "verdict", "run of", "seed", "faults", "ok ops", "what", "report"],
        "rows": [_row(run, base) for run in fleet.runs[:ROWS_MAX]],
    }


def _row(run: FleetRun, base: str) -> list[Any]:
    spec = run.spec
    what = "; ".join(f"{name}: {message}" for name, message in run.anomalies) or run.doubt
    mutant = "" if spec.mutant is None else f", {spec.mutant}"
    return [
        moment(run.started_s),
        run.verdict,
        text.clean(run.group + mutant, limit=200),
        spec.seed if -(2**53) < spec.seed < 2**53 else str(spec.seed),
        text.clean(", ".join(spec.nemeses) or "none", limit=200),
        run.ops_ok,
        text.clean(what, limit=300),
        link(run, base),
    ]


def link(run: FleetRun, base: str) -> str:
    """To a run's own report."""
    return f"{quote(base)}/{quote(run.path)}/report.html"


def moment(at_s: float) -> str:
    """A moment in UTC, to the second."""
    if not at_s:
        return text.UNKNOWN
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def _bars(fleet: Fleet) -> list[dict[str, Any]]:
    """Stacked bars of runs over time: x, y and height in units of the drawing."""
    most = max((sum(bucket.counts.values()) for bucket in fleet.buckets), default=1)
    bars = []
    for n, bucket in enumerate(fleet.buckets):
        y = float(BARS_HEIGHT)
        parts = []
        for verdict in reversed(VERDICTS):
            count = bucket.counts.get(verdict, 0)
            if count:
                height = max(1.5, BARS_HEIGHT * count / most)
                y -= height
                parts.append({"verdict": verdict, "y": round(y, 2), "height": round(height, 2)})
        told = ", ".join(f"{bucket.counts[v]} {v}" for v in VERDICTS if bucket.counts.get(v))
        title = f"{moment(bucket.start_s)}: {told or 'none'}"
        bars.append({"x": n * BAR_WIDTH, "parts": parts, "title": title})
    return bars


def _milliseconds(value: float | None) -> str:
    return text.UNKNOWN if value is None else text.duration(int(value * 1e6))


def _seconds(value: float | None) -> str:
    return text.UNKNOWN if value is None else text.duration(int(value * 1e9))


def _span(value_s: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if value_s >= unit:
            return text.count(value_s // unit, name)
    return text.count(value_s, "second")
