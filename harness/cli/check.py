"""``krucible check``: judge history files, or stored runs again."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from harness import session
from harness.cli.console import STYLE, Json, out, print_json
from harness.errors import UsageError
from harness.registry import models
from harness.store import RunDir
from harness.verdict import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, Valid, merge

FORMATS = ("auto", "jsonl", "edn", "porcupine")
_EXIT = {Valid.VALID: EXIT_VALID, Valid.INVALID: EXIT_INVALID, Valid.UNKNOWN: EXIT_UNKNOWN}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="check",
        help="Judge histories (JSONL, Jepsen EDN, Porcupine text), or runs of the store again.",
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
    initial: Annotated[str | None, typer.Option(help="Initial value of each key.")] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds for each history.")] = 60.0,
    json: Json = False,
) -> int:
    """Exit 1 when one is invalid, else 2 when one could not be decided, else 0."""
    if format_ not in FORMATS:
        raise UsageError(f"--format {format_!r}: want one of {', '.join(FORMATS)}")
    if model is not None:
        models.get(model)
    rows = [
        _run(path)
        if _is_run(path)
        else _file(path, model=model, format=format_, initial=initial, time_limit_s=time_limit)
        for path in paths
    ]
    if json:
        print_json(rows)
    else:
        out().print(_table(rows))
    return _EXIT[merge(Valid(row["verdict"]) for row in rows)]


def _is_run(path: Path) -> bool:
    return (path / "spec.json").is_file()


def _run(path: Path) -> dict[str, Any]:
    judgement = session.judge_run(RunDir(path.resolve()))
    first = next(iter(judgement.anomalies), None)
    reasons = [reason for axis in judgement.reasons.values() for reason in axis]
    return {
        "path": str(path),
        "verdict": str(session.verdict(judgement)),
        "found": first.message if first else "; ".join(reasons[:2]),
        "anomalies": [anomaly.to_json() for anomaly in judgement.anomalies],
    }


def _file(path: Path, **options: Any) -> dict[str, Any]:
    # by name: checkers stand above the kernel, which must not depend on them
    result = importlib.import_module("checkers.linearizable").check_file(path, **options)
    first = next(iter(result.anomalies), None)
    return {
        "path": str(path),
        "verdict": str(result.valid),
        "found": first.message if first else (result.reason or ""),
        "anomalies": [anomaly.to_json() for anomaly in result.anomalies],
        "stats": result.stats,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("history", "verdict", "found", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        verdict = Valid(row["verdict"])
        table.add_row(row["path"], f"[{STYLE[verdict]}]{verdict}[/]", row["found"])
    return table
