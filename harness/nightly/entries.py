"""The entries of a night's plan: simulations, searches, live runs, canaries, steps on a failure."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from harness import durations
from harness.errors import UsageError
from harness.faults import choice as nemesis_names
from harness.registry import workloads
from harness.spec import FAIR, STEADY, RunSpec

LIVE: Final = " (live)"  # ends the name of a canary with real processes
MOMENTS_MAX: Final = 1_000

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]
Weight = Annotated[float, Meta(gt=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Duration = Annotated[str, Meta(pattern=f"^{durations.PATTERN}$")]
Voters = Annotated[int, Meta(ge=1, le=7)]
Observers = Annotated[int, Meta(ge=0, le=20)]
TimeLimit = Annotated[float, Meta(ge=1, le=86_400)]
Settle = Annotated[float, Meta(ge=0, le=3_600)]
Rate = Annotated[float, Meta(ge=0, le=100_000)]
Concurrency = Annotated[int, Meta(ge=1, le=1_000)]
Moments = Annotated[int, Meta(ge=0, le=MOMENTS_MAX)]


class Drawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Runs in virtual time, of which seeds draw what is not given."""

    name: Name
    weight: Weight = 1.0
    twice: Share = 0.02
    system: str | None = None
    workload: str | None = None
    nemesis: tuple[str, ...] | None = None
    voters: Voters | None = None
    observers: Observers | None = None
    time_limit: TimeLimit | None = None
    rate: Rate | None = None
    concurrency: Concurrency | None = None
    pace: str | None = None
    moments: Moments | None = None
    weather: str | None = None
    mutant: str | None = None
    settings: dict[str, str] = {}

    def pinned(self) -> dict[str, Any]:
        """Tell what is given, for ``harness.sessions.swarm.draw``."""
        fields = {
            "system": self.system,
            "workload": self.workload,
            "nemeses": self.nemesis,
            "voters": self.voters,
            "observers": self.observers,
            "time_limit_s": self.time_limit,
            "rate_hz": self.rate,
            "concurrency": self.concurrency,
            "pace": self.pace,
            "moments": self.moments,
            "weather": self.weather,
            "mutant": self.mutant,
            "settings": self.settings or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def asked_for(self) -> bool:
        """Tell whether its faults were asked for: one that was only drawn may as well not fit."""
        return self.nemesis is not None


class Sim(Drawn, frozen=True, kw_only=True):
    """Seeds in virtual time."""

    save: Share = 0.0


class Explore(Drawn, frozen=True, kw_only=True):
    """A search in virtual time, whose runs are made of what those before showed."""


class Live(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Runs with real processes."""

    name: Name
    weight: Weight = 1.0
    system: str = "kraft"
    env: str = "local"
    workload: str = "register"
    nemesis: tuple[str, ...] = (nemesis_names.ALL,)
    voters: Voters = 3
    observers: Observers = 2
    time_limit: TimeLimit = 30.0
    rate: Rate | None = None
    concurrency: Concurrency = 10
    pace: str = STEADY
    weather: str = FAIR
    settle: Settle = 0.0
    mutant: str | None = None
    settings: dict[str, str] = {}

    def spec(self, seed: int) -> RunSpec:
        """The options of one of its runs."""
        return RunSpec(
            seed=seed,
            system=self.system,
            env=self.env,
            workload=self.workload,
            nemeses=self.nemesis,
            voters=self.voters,
            observers=self.observers,
            time_limit_s=self.time_limit,
            rate_hz=workloads.traits(self.workload).rate_hz if self.rate is None else self.rate,
            concurrency=self.concurrency,
            pace=self.pace,
            weather=self.weather,
            settle_s=self.settle,
            mutant=self.mutant,
            settings=dict(self.settings),
        )


class Canary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A bug that must be caught, for the right reason: a seeded one, or one of a release.

    Of a release's the one that has it fixed must not break the same.
    """

    mutant: str | None = None
    bug: str | None = None  # of a release
    budget: Duration = "2m"
    live: bool = False
    workload: str = "register"  # of live ones with a mutant; the others have their own scenario
    time_limit: TimeLimit = 30.0

    @property
    def of(self) -> str:
        """Tell which bug it is."""
        return self.mutant or self.bug or ""

    @property
    def name(self) -> str:
        """Tell what it is called in the ledger."""
        return f"{self.of}{LIVE}" if self.live else self.of

    @property
    def budget_s(self) -> float:
        """Tell how long it may take to be caught."""
        return seconds(self.budget)


class OnFailure(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """The steps that are taken at once with a failure."""

    repro_times: Annotated[int, Meta(ge=1, le=1_000)] = 5
    shrink: Duration = "2m"
    kept: Annotated[int, Meta(ge=1, le=1_000_000)] = 10

    @property
    def shrink_s(self) -> float:
        """Tell how long a failure may take to be shrunk."""
        return seconds(self.shrink)


def seconds(text: str) -> float:
    """The seconds of a length of time; raises UsageError."""
    try:
        return durations.seconds(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
