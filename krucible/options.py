"""The options that say what a simulated seed does; what is not given is drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from harness.registry import systems
from harness.sessions.plan import Plan
from harness.sessions.swarm import DEFAULT_SYSTEM, draw
from krucible import completion
from krucible.arguments import (
    CONCURRENCY_MAX,
    MOMENTS_MAX,
    NEMESIS_HELP,
    OBSERVERS_MAX,
    PACE_HELP,
    RATE_MAX_HZ,
    SEED_MAX,
    TIME_LIMIT_MAX_S,
    VOTERS_MAX,
    WEATHER_HELP,
    KafkaHome,
    KafkaVersion,
    check_mutant,
    of_kafka,
    parse_nemeses,
    parse_settings,
)
from krucible.completion import named
from krucible.quantities import duration, number, whole

Voters = Annotated[int | None, whole("Controllers.", least=1, most=VOTERS_MAX)]
Observers = Annotated[int | None, whole("Brokers.", least=0, most=OBSERVERS_MAX)]
Workload = Annotated[str | None, named("Workload of the clients.", completion.WORKLOADS)]
Nemesis = Annotated[str | None, named(NEMESIS_HELP, completion.faults, "NAMES")]
System = Annotated[str | None, named("System to simulate (default: kraft).", completion.SYSTEMS)]
TimeLimit = Annotated[
    float | None,
    duration(
        "Simulated time under faults (default: as long as the seed's faults need).",
        least_s=1,
        most_s=TIME_LIMIT_MAX_S,
    ),
]
Rate = Annotated[float | None, number("Ops per simulated second.", least=0, most=RATE_MAX_HZ)]
Concurrency = Annotated[int | None, whole("Client processes.", least=1, most=CONCURRENCY_MAX)]
Pace = Annotated[str | None, named(PACE_HELP, completion.paces)]
Moments = Annotated[
    int | None,
    whole(
        "Faults that strike at drawn moments, such as the 2nd disk change of a new leader, beside "
        "those that go by time.",
        least=0,
        most=MOMENTS_MAX,
    ),
]
Weather = Annotated[str | None, named(WEATHER_HELP, completion.weathers)]
Mutant = Annotated[str | None, named("Seeded bug to switch on.", completion.mutants)]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the system; repeatable."),
]
GoOn = Annotated[
    bool,
    typer.Option(
        help="Simulate to the end even if an invariant is broken. By default a simulation stops at "
        "the first violation that events, committed records or answers show."
    ),
]
ScheduleSeed = Annotated[
    int | None,
    whole(
        "Seed to simulate; or the seed of a schedule without spec.json (default: 1).",
        "--seed",
        least=0,
        most=SEED_MAX,
    ),
]


def pinned(  # noqa: PLR0913 - one parameter per option
    *,
    system: System = None,
    voters: Voters = None,
    observers: Observers = None,
    workload: Workload = None,
    nemesis: Nemesis = None,
    time_limit: TimeLimit = None,
    rate: Rate = None,
    concurrency: Concurrency = None,
    pace: Pace = None,
    moments: Moments = None,
    weather: Weather = None,
    mutant: Mutant = None,
    setting: Settings = None,
    kafka_version: KafkaVersion = None,
    kafka_home: KafkaHome = None,
) -> dict[str, Any]:
    """The fields of RunSpec that were given, for ``swarm.draw``; raises UsageError."""
    fields = {
        "system": system,
        "workload": workload,
        "voters": voters,
        "observers": observers,
        "time_limit_s": time_limit,
        "rate_hz": rate,
        "concurrency": concurrency,
        "pace": pace,
        "moments": moments,
        "weather": weather,
        "mutant": mutant,
    }
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if nemesis is not None:
        given["nemeses"] = parse_nemeses(nemesis, systems.get(system or DEFAULT_SYSTEM))
    if settings := of_kafka(parse_settings(setting or []), kafka_version, kafka_home):
        given["settings"] = settings
    return given


def pins(command: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command: in the place of its parameter ``given`` it has the options of ``pinned``.

    The command gets the answer of ``pinned`` as ``given``.
    """
    options = signature(pinned, eval_str=True).parameters
    own = signature(command, eval_str=True)

    @wraps(command)
    def pinning(**chosen: Any) -> int:
        given = pinned(**{name: chosen.pop(name) for name in options})
        return command(**chosen, given=given)

    parameters: list[Parameter] = []
    for each in own.parameters.values():
        parameters += options.values() if each.name == "given" else (each,)
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    hints = {each.name: each.annotation for each in parameters}
    # what typer makes the command line of
    vars(pinning)["__signature__"] = own.replace(parameters=parameters)
    pinning.__annotations__ = {**hints, "return": own.return_annotation}
    return pinning


def to_the_end(given: Mapping[str, Any], *, go_on: bool) -> dict[str, Any]:
    """The fields of RunSpec, and whether nothing that is broken ends the simulation."""
    return {**given, "stop_at": ()} if go_on else dict(given)


def asked_for(pinned: Mapping[str, Any]) -> bool:
    """Tell whether faults were asked for: one that was only drawn may as well not fit."""
    return "nemeses" in pinned


def plan_of_seed(seed: int, pinned: Mapping[str, Any]) -> Plan:
    """Draw what was not given and make the plan of a seed; raises UsageError."""
    spec = draw(seed, pinned)
    check_mutant(spec)
    return Plan.simulated(spec, asked_for=asked_for(pinned))
