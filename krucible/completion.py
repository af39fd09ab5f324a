"""Names that a shell completes, for options that are names of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer

from harness.faults.choice import ALL, NONE
from harness.faults.schedule import PACES
from harness.faults.weather import WEATHERS
from harness.registry import (
    Registry,
    environments,
    mutant_names,
    nemeses,
    released_bugs,
    systems,
    workloads,
)
from harness.spec import FAIR


def named(help_: str, names: Callable[[], Iterable[str]], metavar: str = "NAME") -> Any:
    """An option that is a name, or several by comma, as metadata of its annotation."""

    def complete(incomplete: str) -> list[str]:
        head, comma, last = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in names() if name.startswith(last)]

    return typer.Option(metavar=metavar, help=help_, autocompletion=complete)


def of(registry: Registry[Any]) -> Callable[[], list[str]]:
    """The names of a kind of plug-in."""
    return registry.names


def faults() -> list[str]:
    """The words of ``--nemesis``."""
    families = {str(factory.family) for _, factory in nemeses}
    return sorted({ALL, NONE, *families, *nemeses.names()})


def mutants() -> list[str]:
    """The seeded bugs of all systems."""
    return sorted({name for system in systems.names() for name in mutant_names(system)})


def weathers() -> list[str]:
    """The kinds of weather."""
    return [FAIR, *WEATHERS]


def bugs() -> list[str]:
    """The bugs that the zoo hunts: seeded ones, and those of releases."""
    return sorted(
        {
            *mutants(),
            *(bug.name for _, bug in released_bugs() if bug.is_hunted or bug.is_hunted_live),
        }
    )


def paces() -> list[str]:
    """The paces of faults."""
    return list(PACES)


SYSTEMS, ENVIRONMENTS, WORKLOADS = of(systems), of(environments), of(workloads)
