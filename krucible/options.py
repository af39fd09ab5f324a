"""The options that say what a simulated seed does; what is not given is drawn from the seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.registry import systems
from harness.sessions.swarm import draw
from krucible.arguments import (
    CONCURRENCY_MAX,
    NEMESIS_HELP,
    OBSERVERS_MAX,
    PACE_HELP,
    RATE_MAX_HZ,
    SEED_MAX,
    TIME_LIMIT_MAX_S,
    VOTERS_MAX,
    check_mutant,
    parse_nemeses,
    parse_settings,
)

if TYPE_CHECKING:
    from harness.sessions.simulated import SimPlan

Voters = Annotated[int | None, typer.Option(min=1, max=VOTERS_MAX, help="Controllers.")]
Observers = Annotated[int | None, typer.Option(min=0, max=OBSERVERS_MAX, help="Brokers.")]
Workload = Annotated[str | None, typer.Option(help="What the clients do.")]
Nemesis = Annotated[str | None, typer.Option(help=NEMESIS_HELP)]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=1,
        max=TIME_LIMIT_MAX_S,
        help="Simulated seconds under faults. When not given: as long as the seed's faults need.",
    ),
]
Rate = Annotated[
    float | None, typer.Option(min=0, max=RATE_MAX_HZ, help="Ops per simulated second.")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=CONCURRENCY_MAX, help="Client processes.")
]
Pace = Annotated[str | None, typer.Option(help=PACE_HELP)]
Mutant = Annotated[str | None, typer.Option(help="Seeded bug to switch on.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the system; repeatable."),
]
GoOn = Annotated[
    bool,
    typer.Option(
        help="Simulate to the end whatever is broken; else it ends at the first violation of an "
        "invariant that goes by events, committed records or answers."
    ),
]
ScheduleSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=SEED_MAX,
        help="Of a schedule without spec.json: decides ops and what is not given; 1 if not given.",
    ),
]


def pinned(
    settings: list[str] | None, nemesis: str | None, *, go_on: bool = False, **options: object
) -> dict[str, Any]:
    """The fields of RunSpec that were given, for ``swarm.draw``; raises UsageError."""
    given = {name: value for name, value in options.items() if value is not None}
    if go_on:
        given["stop_at"] = ()
    if nemesis is not None:
        given["nemeses"] = parse_nemeses(nemesis, systems.get("kraft"))
    if settings:
        given["settings"] = parse_settings(settings)
    return given


def asked_for(pinned: Mapping[str, Any]) -> bool:
    """Whether faults were asked for: one that was only drawn may as well not fit."""
    return "nemeses" in pinned


def plan_of_seed(seed: int, pinned: Mapping[str, Any]) -> SimPlan:
    """Draw what was not given and make the SimPlan of a seed; raises UsageError."""
    from harness.sessions.simulated import SimPlan  # noqa: PLC0415 - the node: not for --help

    spec = draw(seed, pinned)
    check_mutant(spec)
    return SimPlan.of(spec, asked_for=asked_for(pinned))
