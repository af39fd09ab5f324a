"""The options that say what a simulated seed does; what is not given is drawn from the seed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness.cli.run import (
    CONCURRENCY_MAX,
    OBSERVERS_MAX,
    RATE_MAX_HZ,
    TIME_LIMIT_MAX_S,
    VOTERS_MAX,
    parse_nemeses,
    parse_settings,
)
from harness.registry import systems

Voters = Annotated[int | None, typer.Option(min=1, max=VOTERS_MAX, help="Controllers.")]
Observers = Annotated[int | None, typer.Option(min=0, max=OBSERVERS_MAX, help="Brokers.")]
Workload = Annotated[str | None, typer.Option(help="What the clients do.")]
Nemesis = Annotated[
    str | None, typer.Option(help="Faults: names or families by comma; all or none.")
]
TimeLimit = Annotated[
    float | None, typer.Option(min=1, max=TIME_LIMIT_MAX_S, help="Simulated seconds under faults.")
]
Rate = Annotated[
    float | None, typer.Option(min=0, max=RATE_MAX_HZ, help="Ops per simulated second.")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=CONCURRENCY_MAX, help="Client processes.")
]
Mutant = Annotated[str | None, typer.Option(help="Seeded bug to switch on.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the system; repeatable."),
]


def pinned(settings: list[str] | None, nemesis: str | None, **options: object) -> dict[str, Any]:
    """The fields of RunSpec that were given, for ``harness.swarm.draw``; raises UsageError."""
    given = {name: value for name, value in options.items() if value is not None}
    if nemesis is not None:
        given["nemeses"] = parse_nemeses(nemesis, systems.get("kraft"))
    if settings:
        given["settings"] = parse_settings(settings)
    return given
