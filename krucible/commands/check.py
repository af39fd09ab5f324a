"""``krucible check``: judge history files, or stored runs again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from harness.errors import UsageError
from harness.history.formats import FORMATS
from harness.nightly.junit import Case, Suite, to_xml
from harness.processes.crew import Job, Said, work_off
from harness.registry import models, unknown
from harness.sessions import live as session
from harness.store.folder import RunDir
from harness.store.home import home_of
from harness.store.remote.address import is_remote
from harness.verdict import (
    EXIT_HARNESS,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_USAGE,
    EXIT_VALID,
    Anomaly,
    CheckResult,
    Valid,
)
from krucible.arguments import DEFAULT_STORE, TIME_LIMIT_MAX_S, StoreDir
from krucible.console import STYLE, Json, complain, err, print_json, print_table
from krucible.paths import HISTORY_SUFFIXES, found, is_pattern
from krucible.quantities import duration, whole
from krucible.stores import at_hand, mirror_of, of_run, opened, run_at

UNREADABLE = "unreadable"
LIST_APPEND = "list-append"
# What many files have in common: the first of these that one of them has.
PRECEDENCE = (EXIT_INVALID, EXIT_HARNESS, EXIT_USAGE, EXIT_UNKNOWN, EXIT_VALID)
_EXIT = {Valid.VALID: EXIT_VALID, Valid.INVALID: EXIT_INVALID, Valid.UNKNOWN: EXIT_UNKNOWN}
_ONLY_FILES = "--model, --consistency-model, --format and --initial go with history files"
Judged = tuple[dict[str, Any], str | None]  # a row, and the complaint about what cannot be judged
SHARES_PER_JOB = 8  # so that one with much to judge does not end long after the others
SKIPPED_TOLD_MAX = 5  # hidden folders
ANOMALIES_TOLD_MAX = 10  # in a report for machines that people read, too


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="check",
        help="Judge history files (JSON lines, Jepsen's EDN, Porcupine's logs), or judge stored "
        "runs again. A folder stands for all runs and histories in it; a path that does not "
        "exist is looked up in the store as an id, a seed or latest. Exits 1 when one is "
        "invalid, else 255 when the harness failed in a run, else 254 when one cannot be read, "
        "else 2 when one could not be decided, else 0.",
        short_help="Judge history files, or judge stored runs again.",
        epilog="Example: krucible check history.jsonl --model cas-register --initial 0",
    )(check)


def check(  # noqa: PLR0913 - they are the command's
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="History files, folders, or patterns in quotes; stored runs, by folder, id or "
            "latest; runs and stores in S3.",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model to judge by (default: guessed from the ops)."),
    ] = None,
    consistency_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Consistency of list-append histories (default: strict-serializable).",
        ),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME", help=f"Format of the files: one of {', '.join(FORMATS)}."
        ),
    ] = "auto",
    initial: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="Initial value of each key: JSON, nil, or text."),
    ] = None,
    time_limit: Annotated[
        float,
        duration("Time for each history.", least_s=0.1, most_s=TIME_LIMIT_MAX_S, default_s=60),
    ] = 60.0,
    memory_limit: Annotated[int, whole("Memory of each process, in MiB.", least=64)] = 4096,
    jobs: Annotated[
        int | None,
        whole("Parallel processes (default: one per CPU).", "--jobs", "-j", least=1),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write JUnit XML to this file, with a test case for each history."
        ),
    ] = None,
    store: StoreDir = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Judge every path, whatever is wrong with the others."""
    if format_ not in FORMATS:
        raise UsageError(unknown("history format", format_, list(FORMATS)))
    if model is not None:
        models.get(model)
    if consistency_model is not None:
        _check_consistency_model(consistency_model, model)
    files_only = (model, consistency_model, format_, initial) != (None, None, "auto", None)
    options = {
        "format": format_,
        "time_limit_s": time_limit,
        "memory_limit_bytes": memory_limit << 20,
    }
    if consistency_model is None:
        options |= {"model": model, "initial": initial}
    else:
        options["consistency_model"] = consistency_model
    rows = []
    local = [_local(path, store) for path in paths]
    for row, error in _rows(local, files_only, options, jobs or os.cpu_count() or 1):
        rows.append(row)
        if error is not None:
            complain(error)
    if json:
        print_json(rows)
    elif judged := [row for row in rows if row["verdict"] != UNREADABLE]:
        print_table(("history", "verdict", "found"), [_cells(row) for row in judged])
    if junit is not None:
        _write_junit(junit, rows)
    codes: set[int] = {row["exit_code"] for row in rows}
    return next(code for code in PRECEDENCE if code in codes)


@dataclass(frozen=True, slots=True)
class _Missing:
    """A text that names neither a file nor a run, and why not."""

    text: str
    why: str


def _local(text: str, store: str) -> Path | _Missing:
    """Find the path on this machine that a text names; fetch it from object storage.

    A path that exists wins over a run of the store with the same name.
    """
    if is_remote(text):
        if of_run(text) is not None:
            return Path(at_hand(text))
        mirror = mirror_of(text)
        mirror.fetch_all()
        return mirror.root
    path = Path(text)
    if path.exists() or path.suffix in HISTORY_SUFFIXES or is_pattern(path):
        return path
    try:
        return opened(store).resolve(text).path
    except UsageError as error:
        return _Missing(text, f"{text}: there is no such file, and no such run: {error}")


def _name(path: Path) -> str:
    """Name a path for people: a run in object storage by its address there."""
    return str(path) if home_of(path.absolute().parents[1]) is None else RunDir(path).told


def _check_consistency_model(name: str, model: str | None) -> None:
    if model not in (None, LIST_APPEND):
        raise UsageError(
            f"--consistency-model goes with --model {LIST_APPEND}, not with {model}: leave one out"
        )
    from checkers.transactions.consistency import forbidden  # noqa: PLC0415 - not for --help

    forbidden(name)


def _rows(
    paths: list[Path | _Missing], files_only: bool, options: dict[str, Any], jobs: int
) -> list[Judged]:
    """Judge all, in the order they were asked for; people at a terminal see how far it is."""
    console = err()
    hidden: list[Path] = []
    wanted: list[Path | _Missing] = []
    for path in paths:
        wanted += [path] if isinstance(path, _Missing) else found(path, hidden.append)
    if hidden:
        console.print(_skipped(hidden), markup=False)
    rows: dict[int, Judged] = {}
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        auto_refresh=False,  # without a thread, which a fork would lose
        disable=not console.is_terminal or len(wanted) == 1,
    ) as progress:
        task = progress.add_task("", total=len(wanted))
        for at, row in _judged(wanted, partial(_row, files_only=files_only, options=options), jobs):
            rows[at] = row
            progress.update(task, advance=1, description=_shown(wanted[at]), refresh=True)
    return [row for _, row in sorted(rows.items())]


def _shown(meant: Path | _Missing) -> str:
    return meant.text if isinstance(meant, _Missing) else meant.name


def _skipped(hidden: list[Path]) -> str:
    """Say which hidden folders were not looked into."""
    shown = ", ".join(map(str, sorted(hidden)[:SKIPPED_TOLD_MAX]))
    more = len(hidden) - SKIPPED_TOLD_MAX
    rest = f" and {more} more" if more > 0 else ""
    return f"skipped hidden folders: {shown}{rest} (name one to judge what is in it)"


def _judged(
    wanted: list[Path | _Missing], judge: Callable[[Path | _Missing], Judged], jobs: int
) -> Iterator[tuple[int, Judged]]:
    """Each path's number and row, as they are ready; what breaks a process is judged here."""
    left = dict(enumerate(wanted))
    if jobs > 1 and len(wanted) > 1:
        shares = min(len(wanted), jobs * SHARES_PER_JOB)

        def work(share: int) -> Iterator[tuple[int, Judged]]:
            yield from ((at, judge(wanted[at])) for at in range(share, len(wanted), shares))

        each = [Job(f"share {share}", partial(work, share)) for share in range(shares)]
        for said in work_off(each, jobs):
            if isinstance(said, Said):
                del left[said.value[0]]
                yield said.value
    yield from ((at, judge(path)) for at, path in left.items())


def _row(path: Path | _Missing, files_only: bool, options: dict[str, Any]) -> Judged:
    """Tell what was found, and the complaint when it cannot be judged."""
    if isinstance(path, _Missing):
        return {"path": path.text, **_found(UNREADABLE, EXIT_USAGE, path.why, ())}, path.why
    try:
        row = _run(path, files_only) if path.is_dir() else _file(path, options)
    except UsageError as error:
        return {"path": _name(path), **_found(UNREADABLE, EXIT_USAGE, str(error), ())}, str(error)
    return {"path": _name(path), **row}, None


def _run(path: Path, files_only: bool) -> dict[str, Any]:
    if files_only:
        raise UsageError(f"{path}: a folder; {_ONLY_FILES}: leave them out")
    if not (path / "spec.json").is_file():
        raise UsageError(
            f"{path}: no run: there is no spec.json in it, nor any history; name a run: its folder "
            "(store/<system>-<workload>/<start>-<seed>-<id>), id or latest; or history files"
        )
    judgement = session.judge_run(run_at(path))
    reasons = [reason for axis in judgement.reasons.values() for reason in axis]
    verdict, code = session.verdict(judgement), judgement.exit_code
    return _found(str(verdict), code, "; ".join(reasons[:2]), judgement.anomalies)


def _file(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    from checkers import linearizable  # noqa: PLC0415 - the searches: not for --help
    from checkers.transactions import cycles  # noqa: PLC0415 - likewise

    judge = cycles.check_file if "consistency_model" in options else linearizable.check_file
    result: CheckResult = judge(path, **options)
    row = _found(str(result.valid), _EXIT[result.valid], result.reason or "", result.anomalies)
    return {**row, "stats": result.stats}


def _found(verdict: str, code: int, why: str, anomalies: Iterable[Anomaly]) -> dict[str, Any]:
    first = next(iter(anomalies), None)
    return {
        "verdict": verdict,
        "exit_code": code,
        "found": first.message if first else why,
        "anomalies": [anomaly.to_json() for anomaly in anomalies],
    }


def _cells(row: dict[str, Any]) -> tuple[str, Text, str]:
    verdict = Valid(row["verdict"])
    return row["path"], Text(verdict, style=STYLE[verdict]), row["found"]


def _write_junit(path: Path, rows: list[dict[str, Any]]) -> None:
    """A case for each history: an invalid one failed, one that could not be judged is an error."""
    try:
        path.write_bytes(to_xml([Suite("krucible check", tuple(map(_case, rows)))]))
    except OSError as error:
        raise UsageError(f"{path}: the report cannot be written: {error.strerror}") from error


def _case(row: dict[str, Any]) -> Case:
    if row["exit_code"] == EXIT_VALID:
        return Case(row["path"])
    told = [anomaly["message"] for anomaly in row["anomalies"][:ANOMALIES_TOLD_MAX]]
    text = "\n".join([f"{row['verdict']}: {row['found']}", *told[1:]])
    if row["exit_code"] == EXIT_INVALID:
        return Case(row["path"], failure=text)
    return Case(row["path"], error=text)
