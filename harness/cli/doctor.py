"""``krucible doctor``: what this host has, what it lacks, and what to do about it."""

from __future__ import annotations

import typer
from rich.table import Table

from harness.cli.console import Json, out, print_json
from harness.doctor import examine

STYLE = {"ok": "green", "warn": "yellow", "bad": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="doctor",
        help="Look at the host: what runs need, what is missing, what earlier runs left behind.",
        epilog="Example: krucible doctor",
    )(doctor)


def doctor(json: Json = False) -> int:
    """Exit 0 when a local run can work here, 255 when not."""
    findings = examine()
    if json:
        print_json([finding.to_json() for finding in findings])
    else:
        table = Table("check", "", "found", "what to do", box=None, padding=(0, 2, 0, 0))
        for finding in findings:
            status = f"[{STYLE[finding.status]}]{finding.status}[/]"
            table.add_row(finding.name, status, finding.detail, finding.remedy or "")
        out().print(table)
    return 255 if any(finding.status == "bad" for finding in findings) else 0
