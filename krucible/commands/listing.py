"""``krucible list``: every plug-in with the first line of its docstring, and every invariant."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness import catalogue
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
from krucible.console import Json, print_json, print_table

KINDS: dict[str, Registry[Any]] = {
    "systems": systems,
    "environments": environments,
    "workloads": workloads,
    "nemeses": nemeses,
    "checkers": checkers,
    "models": models,
}
MUTANTS = "mutants"  # no registry of their own: every system offers its own
PLUGINS = (*KINDS, MUTANTS)
INVARIANTS = "invariants"  # no plug-ins: what checkers and models judge
ALL_KINDS = (*PLUGINS, INVARIANTS)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="list",
        help="List plug-ins: systems, environments, workloads, nemeses, checkers, models, mutants; "
        "and the invariants that are judged.",
        short_help="List plug-ins of one kind or all, or invariants.",
        epilog="Example: krucible list nemeses --json",
    )(list_)


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND", help=f"Kind to list (default: all): {', '.join(ALL_KINDS)}."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Print names and descriptions."""
    if kind is not None and kind not in ALL_KINDS:
        raise UsageError(unknown("list", kind, list(ALL_KINDS)))
    found = {name: rows(name) for name in ([kind] if kind else ALL_KINDS)}
    if json:
        print_json(found[kind] if kind else found)
        return 0
    lines = [
        (name, entry["name"], _told(entry)) for name, entries in found.items() for entry in entries
    ]
    print_table(("kind", "name", "what it does"), lines)
    return 0


def _told(entry: dict[str, str]) -> str:
    return ": ".join(filter(None, (entry.get("title"), entry["description"])))


def rows(kind: str) -> list[dict[str, str]]:
    """Name, description and what else a kind says of its plug-ins, sorted by name.

    Invariants are in the order of their catalogue.
    """
    if kind == INVARIANTS:
        return [
            {"name": name, "title": meaning.title, "description": meaning.promise}
            for name, meaning in catalogue.meanings().items()
        ]
    if kind == MUTANTS:
        return [
            {**{k: v for k, v in row.items() if k != "scenario"}, "system": name}
            for name in systems.names()
            for row in mutants_of(name)
        ]
    registry = KINDS[kind]
    entries = []
    for name in registry.names():
        entry = {"name": name, "description": registry.describe(name)}
        if registry is nemeses:
            entry["family"] = nemeses.get(name)().family
        entries.append(entry)
    return entries
