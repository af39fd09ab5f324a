"""``krucible list``: every plug-in with the first line of its docstring."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from harness.cli.console import Json, out, print_json
from harness.errors import UsageError
from harness.registry import (
    Registry,
    checkers,
    environments,
    models,
    mutants_of,
    nemeses,
    systems,
    unknown,
    workloads,
)

KINDS: dict[str, Registry] = {
    "systems": systems,
    "environments": environments,
    "workloads": workloads,
    "nemeses": nemeses,
    "checkers": checkers,
    "models": models,
}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="list",
        help="List plug-ins: systems, environments, workloads, nemeses, checkers, models, mutants.",
        epilog="Example: krucible list nemeses --json",
    )(list_)


def list_(
    kind: Annotated[str | None, typer.Argument(help="One kind; all when not given.")] = None,
    json: Json = False,
) -> int:
    """Print names and descriptions."""
    kinds = [*KINDS, "mutants"]
    if kind is not None and kind not in kinds:
        raise UsageError(unknown("kind of plug-in", kind, kinds))
    found = {name: rows(name) for name in ([kind] if kind else kinds)}
    if json:
        print_json(found[kind] if kind else found)
        return 0
    table = Table("kind", "name", "what it does", box=None, padding=(0, 2, 0, 0))
    for name, entries in found.items():
        for entry in entries:
            table.add_row(name, entry["name"], entry["description"])
    out().print(table)
    return 0


def rows(kind: str) -> list[dict[str, str]]:
    """Name, description and what else a kind says of its plug-ins, sorted by name."""
    if kind == "mutants":
        return [row for _, system in systems for row in mutants_of(system)]
    registry = KINDS[kind]
    entries = []
    for name, plugin in registry:
        entry = {"name": name, "description": registry.describe(name)}
        family = getattr(plugin, "family", None)
        if isinstance(family, str):
            entry["family"] = family
        entries.append(entry)
    return entries
