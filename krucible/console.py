"""Helpers that commands share: consoles, tables, the one-line complaint, JSON output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.verdict import Valid

STYLE = {Valid.VALID: "bold green", Valid.INVALID: "bold red", Valid.UNKNOWN: "bold yellow"}
COLUMN_GAP = 2
EXIT_INTERRUPTED = 130  # the shell's own code for Ctrl-C

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines, on one line.")]
Cell = str | Text


def out() -> Console:
    """The console for results (standard output); made late, so that tests can redirect it."""
    return Console(highlight=False, soft_wrap=True, emoji=False)


def err() -> Console:
    """The console for progress (standard error)."""
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def complain(message: str) -> None:
    """One line to standard error: what, where, what to do."""
    line = " ".join(message.split())
    print(f"krucible: {line}", file=sys.stderr)  # noqa: T201 - the last word of the program


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """A table: wrapped to a terminal's width; elsewhere one line a row, so that it can be cut."""
    console = out()
    if not console.is_terminal:
        sys.stdout.write(plain_table(head, rows))
        return
    table = Table(*head, box=None, padding=(0, COLUMN_GAP, 0, 0))
    for row in rows:
        # as Text: what is in brackets is no markup
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console.print(table, soft_wrap=False)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table as lines of aligned columns."""
    cells = [list(head), *([str(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(len, column)) + COLUMN_GAP for column in zip(*cells, strict=True)]
    lines = ("".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    return "".join(f"{line}\n" for line in lines)
