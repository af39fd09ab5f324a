"""What commands share: consoles, the one-line complaint, JSON output."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from harness.verdict import Valid

STYLE = {Valid.VALID: "bold green", Valid.INVALID: "bold red", Valid.UNKNOWN: "bold yellow"}

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def out() -> Console:
    """The console for results (standard output); made late, so that tests can redirect it."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """The console for progress (standard error)."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """One line to standard error: what, where, what to do."""
    line = " ".join(message.split())
    print(f"krucible: {line}", file=sys.stderr)  # noqa: T201 - the last word of the program


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
