"""The options of one run, parsed once at the edge and saved as ``spec.json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

SIM = "sim"  # the environment of simulated runs
STEADY = "steady"  # the usual pace of faults
FAIR = "fair"  # the usual weather: links as they are by themselves
# Fields that are left out of spec.json where they say what they said before there were such fields.
_USUAL: tuple[tuple[str, Any], ...] = (
    ("luck", 0),
    ("moments", 0),
    ("weather", FAIR),
    ("tape", []),
    ("settle_s", 0.0),
)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything that decides what a run does; the same spec makes the same schedule and ops."""

    seed: int
    system: str = "kraft"
    env: str = "local"
    workload: str = "register"
    nemeses: tuple[str, ...] = ()
    voters: int = 3
    observers: int = 2
    time_limit_s: float = 30.0
    rate_hz: float = 100.0
    concurrency: int = 10
    pace: str = STEADY  # how faults follow each other: a name of harness.faults.schedule.PACES
    mutant: str | None = None
    settings: dict[str, str] = field(default_factory=dict)  # extra node settings, Kafka's names
    only_ops: tuple[int, ...] | None = None  # numbers of the main phase's ops that are done; all
    stop_at: tuple[str, ...] | None = None  # what ends a simulation when it is broken; anything
    asked: tuple[str, ...] | None = None  # --nemesis, where it named families or all; the nemeses
    moments: int = 0  # faults that strike at drawn moments, beside those that go by time
    weather: str = FAIR  # what all links are like: a name of harness.faults.weather
    settle_s: float = 0.0  # of peace at the end of a live run; simulations always have their own
    luck: int = 0  # which of the seed's draws of latencies, losses and timeouts is taken
    tape: tuple[tuple[int, int], ...] = ()  # a simulation's events at which they are drawn anew,
    # each with a salt

    @property
    def voter_names(self) -> tuple[str, ...]:
        """The names of the controllers: n1 and on."""
        return tuple(f"n{number + 1}" for number in range(self.voters))

    @property
    def observer_names(self) -> tuple[str, ...]:
        """The names of the brokers, which go on behind the voters."""
        last = self.voters + self.observers
        return tuple(f"n{number + 1}" for number in range(self.voters, last))

    def lucky(self) -> tuple[int | str, ...]:
        """The labels of the luck's seeds; none for the seed's first, as there was no other once."""
        return ("luck", self.luck) if self.luck else ()

    def to_json(self) -> dict[str, Any]:
        """The spec as a JSON object."""
        fields = asdict(self)
        fields["nemeses"] = list(self.nemeses)
        for name in ("only_ops", "stop_at", "asked"):
            if fields[name] is None:
                del fields[name]
            else:
                fields[name] = list(fields[name])
        fields["tape"] = [list(place) for place in self.tape]
        for name, usual in _USUAL:
            if fields[name] == usual:
                del fields[name]
        return {**fields, "version": 1}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunSpec:
        """Rebuild a spec from ``to_json``'s object.

        Raises:
            TypeError: A field is missing or unknown.
            KeyError: There are no ``nemeses``.
            msgspec.ValidationError: A field has a value of another type; says which.
        """
        fields = {k: v for k, v in data.items() if k != "version"}
        fields["nemeses"] = tuple(fields["nemeses"])
        cls(**fields)  # TypeError for a field that is missing or unknown
        return msgspec.convert(fields, cls)
