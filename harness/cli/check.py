"""``krucible check``: judge history files, or stored runs again."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from harness import session
from harness.cli.console import STYLE, Json, complain, print_json, print_table
from harness.errors import UsageError
from harness.formats import FORMATS
from harness.registry import models, unknown
from harness.store import RunDir
from harness.verdict import (
    EXIT_HARNESS,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_USAGE,
    EXIT_VALID,
    Anomaly,
    Valid,
)

UNREADABLE = "unreadable"
# What many files have in common: the first of these that one of them has.
PRECEDENCE = (EXIT_INVALID, EXIT_HARNESS, EXIT_USAGE, EXIT_UNKNOWN, EXIT_VALID)
_EXIT = {Valid.VALID: EXIT_VALID, Valid.INVALID: EXIT_INVALID, Valid.UNKNOWN: EXIT_UNKNOWN}
_ONLY_FILES = "--model, --format and --initial go with history files"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="check",
        help="Judge histories (JSONL, Jepsen EDN, Porcupine text), or runs of the store again. "
        "Exits 1 when one is invalid, else 255 when the harness of a run broke, else 254 when one "
        "cannot be read, else 2 when one could not be decided, else 0.",
        short_help="Judge histories, or runs of the store again.",
        epilog="Example: krucible check history.jsonl --model cas-register --initial 0",
    )(check)


def check(
    paths: Annotated[list[Path], typer.Argument(help="History files, or folders of runs.")],
    model: Annotated[
        str | None, typer.Option(help="What the history is of; guessed when not given.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")
    ] = "auto",
    initial: Annotated[
        str | None, typer.Option(help="Initial value of each key: JSON, nil, or text.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds for each history.")] = 60.0,
    json: Json = False,
) -> int:
    """Judge every path, whatever is wrong with the others."""
    if format_ not in FORMATS:
        raise UsageError(unknown("history format", format_, list(FORMATS)))
    if model is not None:
        models.get(model)
    files_only = (model, format_, initial) != (None, "auto", None)
    options = {"model": model, "format": format_, "initial": initial, "time_limit_s": time_limit}
    rows = []
    for path in paths:
        row, error = _row(path, files_only, options)
        rows.append(row)
        if error is not None:
            complain(error)
    if json:
        print_json(rows)
    elif judged := [row for row in rows if row["verdict"] != UNREADABLE]:
        print_table(("history", "verdict", "found"), [_cells(row) for row in judged])
    codes: set[int] = {row["exit_code"] for row in rows}
    return next(code for code in PRECEDENCE if code in codes)


def _row(
    path: Path, files_only: bool, options: dict[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """What was found, and the complaint when it cannot be judged."""
    try:
        found = _run(path, files_only) if path.is_dir() else _file(path, options)
    except UsageError as error:
        return {"path": str(path), **_found(UNREADABLE, EXIT_USAGE, str(error), ())}, str(error)
    return {"path": str(path), **found}, None


def _run(path: Path, files_only: bool) -> dict[str, Any]:
    if files_only:
        raise UsageError(f"{path}: a folder; {_ONLY_FILES}: leave them out")
    if not (path / "spec.json").is_file():
        raise UsageError(
            f"{path}: no run: there is no spec.json in it; name a run's folder "
            "(store/<system>-<workload>/<start>-<seed>) or history files"
        )
    judgement = session.judge_run(RunDir(path.resolve()))
    reasons = [reason for axis in judgement.reasons.values() for reason in axis]
    verdict, code = session.verdict(judgement), judgement.exit_code
    return _found(str(verdict), code, "; ".join(reasons[:2]), judgement.anomalies)


def _file(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    # by name: checkers stand above the kernel, which must not depend on them
    result = importlib.import_module("checkers.linearizable").check_file(path, **options)
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
