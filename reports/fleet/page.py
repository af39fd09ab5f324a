"""The fleet report: many runs on one page that needs nothing but itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from harness.nightly.headline import length
from harness.processes.command import KRUCIBLE, Program
from harness.store.folder import write_whole
from reports import text
from reports.command import line
from reports.defects.naming import plainly
from reports.fleet.chart import Chart, Column, chart
from reports.fleet.model import VERDICTS, Fleet, FleetRun, read_fleet
from reports.fleet.nights import Night
from reports.fleet.words import head
from reports.html import page

NAME: Final = "fleet.html"
ROWS_MAX: Final = 50_000  # runs in the table; of more the latest
NIGHTS_MAX: Final = 24  # bars of the chart of nights
SAID: Final = {  # verdicts as a person says them
    "invalid": "invalid",
    "broken": "harness broke",
    "unknown": "in doubt",
    "unjudged": "not judged",
    "valid": "valid",
    "new": "new",
    "known": "known before",
}
GROWTH: Final = ("new", "known")
_DAY_S: Final = 86_400
_MONTH_S: Final = 28 * _DAY_S


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
            "plainly": plainly,
            "count": text.count,
            "moment": moment,
            "ms": _milliseconds,
            "secs": _seconds,
            "span": _span,
            "lasting": length,
        },
        fleet=fleet,
        verdicts=VERDICTS,
        said=SAID,
        head=head(fleet),
        chart=_chart(fleet),
        night_chart=_night_chart(fleet),
        feature_chart=_feature_chart(fleet.nights[0]) if fleet.nights else None,
        stored=partial(_stored, fleet),
        base=base,
        link=link,
        again=lambda verb, run: line(program, verb, *(run.words or (run.path,))),
        left_out=max(0, len(fleet.runs) - ROWS_MAX),
    )


def _table(fleet: Fleet, base: str) -> dict[str, Any]:
    """The runs as rows for the script that filters and sorts them."""
    return {
        "said": SAID,
        "columns": ["began", "verdict", "run of", "seed", "faults", "ok ops", "what", "report"],
        "rows": [_row(run, base) for run in fleet.runs[:ROWS_MAX]],
    }


def _row(run: FleetRun, base: str) -> list[Any]:
    spec = run.spec
    what = "; ".join(f"{name}: {plainly(message)}" for name, message in run.anomalies) or run.doubt
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
    """Give the link to a run's own report."""
    return f"{quote(base)}/{quote(run.path)}/report.html"


def moment(at_s: float) -> str:
    """A moment in UTC, to the second."""
    if not at_s:
        return text.UNKNOWN
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def _chart(fleet: Fleet) -> Chart | None:
    """Runs of the store by the time they began."""
    form = "%-d %b %H:%M"
    if fleet.span_s >= _DAY_S:
        form = "%-d %b" if fleet.span_s < _MONTH_S else "%b %Y"
    columns = [
        Column(
            datetime.fromtimestamp(bucket.start_s, UTC).strftime(form),
            f"{moment(bucket.start_s)} UTC, {_span(fleet.span_s)}: {_told(bucket.counts)}",
            bucket.counts,
        )
        for bucket in fleet.buckets
    ]
    return chart("runs in the store, by the time they began", columns, VERDICTS)


def _night_chart(fleet: Fleet) -> Chart | None:
    """Histories of the last nights, which the store holds few of."""
    columns = [
        Column(
            datetime.fromtimestamp(night.begun_s, UTC).strftime("%-d %b"),
            f"night of {moment(night.begun_s)} UTC, {night.colour}: {_told(night.counts)}",
            night.counts,
        )
        for night in reversed(fleet.nights[:NIGHTS_MAX])
    ]
    return chart("histories of nights", columns, VERDICTS)


def _feature_chart(night: Night) -> Chart | None:
    """Features of a night's simulations over its time: in each part those known and the new."""
    if night.features is None:
        return None
    columns, before = [], 0
    for each in night.features.growth:
        new = each.features - before
        said = (
            f"after {length(each.used_s)} and {text.count(each.histories, 'history', 'histories')}"
        )
        columns.append(
            Column(
                length(each.used_s),
                f"{said}: {text.count(each.features, 'feature')}, {new:,} of them new",
                {"new": new, "known": before},
            )
        )
        before = each.features
    return chart("features that were known, over the time of the night", columns, GROWTH)


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[v]:,} {SAID[v]}" for v in VERDICTS if counts.get(v)) or "none"


def _stored(fleet: Fleet, run: str) -> FleetRun | None:
    """The run of the store in a folder that a night has named; the store may have moved since."""
    name = "/".join(Path(run).parts[-2:])
    return next((each for each in fleet.runs if each.path == name), None)


def _milliseconds(value: float | None) -> str:
    return text.UNKNOWN if value is None else text.duration(int(value * 1e6))


def _seconds(value: float | None) -> str:
    return text.UNKNOWN if value is None else text.duration(int(value * 1e9))


def _span(value_s: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if value_s >= unit:
            return text.count(value_s // unit, name)
    return text.count(value_s, "second")
