"""``krucible analyze``: the Spark pipeline over all runs of a store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import UsageError
from harness.store.remote import seen
from harness.store.remote.address import is_remote
from harness.verdict import EXIT_HARNESS, EXIT_VALID
from krucible.console import Json, err, out, print_json, print_table
from krucible.quantities import whole
from krucible.stores import mirror_of

PERIODS = ("when", "runs", "invalid", "unknown", "new ways to fail", "elections", "unavailable s")
TABLES = ".analysis"  # of a store in object storage, as in a folder


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="analyze",
        help="Analyse all runs of a store in Spark: judge each again by DataFrame transforms and "
        "by the checkers, compare with the stored verdicts, and add up. Runs that were analysed "
        "before are not read again. Exits 0 when done, whatever the verdicts; 255 when Spark and "
        "the stored results disagree about a run.",
        short_help="Analyse all runs of a store in Spark.",
        epilog="Example: krucible analyze store --master 'local[4]'",
    )(analyze)


def analyze(
    store: Annotated[
        str,
        typer.Argument(metavar="STORE", help="Store of runs: a folder, or s3://BUCKET/PREFIX."),
    ],
    master: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Spark master: local[N], or spark://HOST:PORT of a cluster."
        ),
    ] = "local[*]",
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the Parquet tables (default: .analysis in the store). Every worker of "
            "a cluster must see it, and the store, under the same name.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int, whole("Signatures to show.", least=1, most=1000)] = 20,
    json: Json = False,
) -> int:
    """Analyse what is new and show the sum of all."""
    if is_remote(store):
        summary = _analyse_remote(store, master, tables, top)
    elif Path(store).is_dir():
        summary = _analyse(Path(store), master, tables, top)
    else:
        raise UsageError(f"{store}: no such folder; name one with runs, as run --store does")
    if json:
        print_json(summary)
    else:
        _show(summary)
    return EXIT_HARNESS if summary["disagreements"] else EXIT_VALID


def _analyse_remote(store: str, master: str, tables: Path | None, top: int) -> dict[str, Any]:
    """Analyse a copy of a store in object storage; the tables lie there, or in a folder."""
    if not master.startswith("local"):
        raise UsageError(
            f"--master {master}: a store in object storage is analysed on this machine: want "
            "local[N]; for a cluster copy the runs into a folder that its workers see"
        )
    mirror = mirror_of(store)
    folder = None
    if tables is None:
        folder = mirror.folder(TABLES)
        folder.fetch()
        tables = folder.path
    tags = mirror.fetch_new(seen.tags_in(tables))
    summary = _analyse(mirror.root, master, tables, top)
    seen.remember(tables, tags)
    if folder is not None:
        folder.put(last=("manifest", "summary.json", seen.NAME))
    return summary


def _analyse(store: Path, master: str, tables: Path | None, top: int) -> dict[str, Any]:
    try:
        from pipeline import analysis, progress, spark  # noqa: PLC0415 - an extra brings Spark
        from pipeline import class_archive as archive  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise UsageError(
            f"analyze needs {error.name}: install krucible with its extra [spark]"
        ) from error
    options = analysis.Options(store, tables or store / analysis.TABLES_FOLDER, top)
    console = err()
    cache = Path.home() / archive.CACHE
    start = spark.spark_session(master=master, brief=options.is_little, cache=cache)
    with console.status("start Spark") as status, start as session:
        if not console.is_terminal:
            return dict(analysis.analyse(session, options, partial(console.print, markup=False)))
        with progress.watched(session, status.update) as say:
            return dict(analysis.analyse(session, options, say))


def _show(summary: dict[str, Any]) -> None:
    told = partial(out().print, markup=False)
    told(
        f"{summary['runs']} runs: {summary['invalid']} invalid, {summary['unknown']} unknown,"
        f" {summary['disagreements']} judged differently than before;"
        f" {summary['new']['runs']} were new, {summary['pending']} are still being written"
    )
    told(
        f"{summary['events']} events, {summary['ops']} ops; {summary['lines_bad']} bad lines,"
        f" {summary['unreadable']} runs that cannot be read"
    )
    periods = summary["trends"]["periods"]
    if len(periods) > 1:
        print_table(PERIODS, [_of_period(period) for period in periods])
    if summary["signatures"]:
        cells = [
            (str(s["runs"]), str(s["first_seed"]), str(s["last_seed"]), s["signature"])
            for s in summary["signatures"]
        ]
        print_table(("runs", "first seed", "last seed", "signature"), cells)
    for reason in summary["disagreement_reasons"]:
        told(f"differs in {reason['runs']} runs: {reason['reason']}")


def _of_period(period: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the table of PERIODS."""
    counts = (period[name] for name in ("runs", "invalid", "unknown", "new_ways_to_fail"))
    return (
        period["period"],
        *map(str, counts),
        str(period["elections"]),
        f"{period['unavailable_ms'] / 1e3:.1f}",
    )
