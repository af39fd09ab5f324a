"""Measure what `krucible analyze` costs for one more night beside many old ones.

    python bench/nights.py [--nights 100] [--runs 1000] [--base 50] [--master 'local[2]']
        [--folder /tmp]

The first night is simulated runs, every eighth with a seeded bug, multiplied by hard links, and is
analysed. The old nights are copies of it: of the run folders (hard links again) and of the rows
that its analysis wrote, under other names and dates, so that the store is what so many analyses
would have left. Then two more nights are analysed, each with new runs: the first beside as many
small batches as there were nights, which it merges when it has told its answer; the second beside
what these were merged into. What is listed, read, compared and added up is real; only that nights
are alike is not.

"answer" is until summary.json is there, "whole" until the command ends, merging included. CPU time
is that of the process and all of its children. The summary must count all runs, and no run of an
old night may be read again. Wall time needs a machine at rest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from bench.analyze import Cost, analyse, make_base
from bench.support.figures import say, table
from harness.store.folder import RunDir
from pipeline.analysis import TABLES_FOLDER
from pipeline.layout import MANIFEST, Layout
from pipeline.names import RunName
from pipeline.schemas import TABLES

HEAD = ("beside", "batches", "files", "answer s", "whole s", "CPU s", "peak MB", "runs")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SHORT = {"time_limit_s": 1.0, "rate_hz": 40.0, "voters": 3, "observers": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=100, help="old nights")
    parser.add_argument("--runs", type=int, default=1000, help="runs of a night")
    parser.add_argument("--base", type=int, default=50, help="simulated runs that are multiplied")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, help="where the store is made; removed at the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="krucible-bench-", dir=options.folder) as folder:
        measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    base = make_base(folder / "base", options.base, SHORT)
    store = folder / "store"
    layout = Layout(store / TABLES_FOLDER)
    add_night(base, store, 0, options.runs)
    row(store, 0, options)
    (batch,) = layout.batches()
    say(f"make {options.nights - 1} old nights of the first")
    for night in range(1, options.nights):
        add_night(base, store, night, options.runs)
        batch = copy_tables(layout, batch, night)
    for night in (options.nights, options.nights + 1):
        add_night(base, store, night, options.runs)
        row(store, night, options)


def row(store: Path, night: int, options: argparse.Namespace) -> None:
    layout = Layout(store / TABLES_FOLDER)
    batches = len(layout.batches())
    files = sum(1 for _ in layout.out.rglob("*.parquet"))
    began_s = time.time()
    cost: Cost = analyse(store, options.master)
    told = cost.told
    assert told["new"]["runs"] == options.runs, "only the new night was read"
    assert told["runs"] == (night + 1) * options.runs
    assert told["disagreements"] == 0
    cells = (
        night * options.runs,
        batches,
        files,
        f"{layout.summary.stat().st_mtime - began_s:.1f}",
        f"{cost.wall_s:.1f}",
        f"{cost.cpu_s:.1f}",
        f"{cost.peak_mb:.0f}",
        told["runs"],
    )
    say(table(HEAD, [list(map(str, cells))]))


def add_night(base: list[RunDir], store: Path, night: int, runs: int) -> None:
    """Add the runs of a night: hard links to those of the base, in turn."""
    for number in range(runs):
        source = base[number % len(base)].path
        target = store / source.parent.name / name_of(night, number)
        shutil.copytree(source, target, copy_function=os.link)


def name_of(night: int, number: int) -> str:
    """The folder of a run: when it began, its number in its night, and its night."""
    began = FIRST + timedelta(days=night, seconds=number)
    return f"{began:%Y%m%dT%H%M%S}.000Z-{number}-{night}"


def copy_tables(layout: Layout, batch: int, night: int) -> int:
    """Write what an analysis of a night would have: the rows of the night before it, renamed."""
    into = layout.begin()
    for name in TABLES:
        target = layout.draft if name == MANIFEST else layout.table(name, into)
        target.mkdir(parents=True)
        for path in layout.table(name, batch).glob("*.parquet"):
            rows = _renamed(pq.read_table(path), night, into)
            pq.write_table(rows, target / path.name, compression="zstd")
    layout.commit(into, began_ns=time.time_ns())
    return into


def _renamed(rows: pa.Table, night: int, batch: int) -> pa.Table:
    """Rows of the night before as rows of this one."""
    old = pc.unique(rows.column("run"))
    new = [_tonight(name, night) for name in old.to_pylist()]
    of = pc.index_in(rows.column("run"), old)
    columns = {
        "run": pc.take(pa.array(new), of),
        "run_id": pc.take(pa.array([RunName.of(name).run_id for name in new]), of),
        "started": pc.take(pa.array([name.split("/")[1].partition("-")[0] for name in new]), of),
        "batch": pa.array([batch] * len(rows)),
    }
    for index, field in enumerate(rows.schema):
        if field.name in columns:
            rows = rows.set_column(index, field, columns[field.name].cast(field.type))
    return rows


def _tonight(run: str, night: int) -> str:
    family, _, name = run.partition("/")
    return f"{family}/{name_of(night, int(name.split('-')[1]))}"


if __name__ == "__main__":
    main()
