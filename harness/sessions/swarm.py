"""Swarm testing: each seed draws a cluster, a workload, faults and settings of its own.

What a caller pins stays as it is; everything else is drawn, so that no feature hides behind
another one in all runs. Source: Groce et al., "Swarm testing" (ISSTA 2012).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from harness import seeds
from harness.contracts.nemesis import NamedOnly
from harness.contracts.traits import SystemTraits
from harness.faults.schedule import about, length_s, paced, room
from harness.faults.weather import WEATHERS
from harness.registry import nemeses, systems, workloads
from harness.spec import SIM, STEADY, RunSpec

DEFAULT_SYSTEM: Final = "kraft"
VOTERS: Final[Mapping[int, float]] = {1: 1, 2: 0.5, 3: 6, 4: 1, 5: 3, 6: 0.5, 7: 1}
OBSERVERS: Final[Mapping[int, float]] = {0: 1, 1: 2, 2: 3, 3: 1, 4: 0.5, 5: 0.5}
WORKLOADS: Final[Mapping[str, float]] = {
    "register": 5,
    "topics": 2,
    "observers": 2,
    "producer-ids": 0.5,
    "isr": 1,
    "brokers": 1,
    "list-append": 1,
    "membership": 1,
    "describe": 0.5,
}
# Of each workload that a system has drawn apart: among the others it would give each another run.
APART_CHANCE: Final = 1 / 16
RATES_HZ: Final = (5.0, 20.0, 50.0)
TIMES_S: Final = (10.0, 20.0, 30.0)  # about as long as the faults take that a seed draws
PACES: Final[Mapping[str, float]] = {
    "steady": 2,
    "long": 1,
    "dense": 1,
    "overlapping": 2,
    "lasting": 2,
}
AT_MOMENTS: Final = frozenset({"answers"})  # drawn for moments alone: more would shift all draws
MOMENTS_CHANCE: Final = 1 / 3
MOMENTS_MAX: Final = 4
LENGTHS_CHANCE: Final = 1 / 12
LENGTHS: Final = ("crowded", "outlasting")
WEATHER_CHANCE: Final = 1 / 12
BRIEFER: Final = (STEADY, "dense")  # for who has no time for a fault of the pace it drew
FAMILY_CHANCE: Final = 0.5
CALM_CHANCE: Final = 0.05  # no faults at all
QUORUM: Final = "krucible.quorum"
CLIENTS: Final = "krucible.clients"
BROKERS_CHANCE: Final = 1 / 4  # of administrators whose changes brokers forward
MEMBERS_MIN: Final = 3
LOSSES: Final = ("disk", "membership")


def draw(seed: int, pinned: Mapping[str, Any] | None = None) -> RunSpec:
    """The options of a seed.

    Args:
        seed: Decides all that is drawn, also where it does not matter: what is pinned does not
            shift the rest.
        pinned: Fields of RunSpec that are given; ``settings`` replace drawn ones one by one.
    """
    given = dict(pinned or {})
    traits = systems.traits(given.get("system", DEFAULT_SYSTEM))
    traits = (traits.simulated or traits).with_settings(given.get("settings", {}))
    fit = {name: w for name, w in WORKLOADS.items() if _is_drawn(name, traits)}
    rng = seeds.rng(seed, "swarm")
    drawn: dict[str, Any] = {
        "voters": _weighted(rng, VOTERS),
        "observers": _weighted(rng, OBSERVERS),
        "workload": _weighted(rng, fit),
        "rate_hz": rng.choice(RATES_HZ),
        "concurrency": rng.randint(1, 10),
        "time_limit_s": rng.choice(TIMES_S),  # about; a seed is as long as its faults need
        "nemeses": _nemeses(seeds.rng(seed, "swarm", "nemeses")),
        "pace": _weighted(seeds.rng(seed, "swarm", "pace"), PACES),
    }
    place = int(seeds.rng(seed, "swarm", "apart").random() / APART_CHANCE)
    apart = traits.apart[place] if place < len(traits.apart) else None
    lonely = given.get("observers") == 0 and apart in traits.observed
    if apart is not None and "concurrency" in given:  # there may be none who asks a broker
        lonely = lonely or workloads.traits(apart).on_brokers
    if apart is not None and _is_served(apart, traits) and not lonely:
        drawn["workload"] = apart
    if "nemeses" not in given:  # what is asked for is all that there is
        drawn |= _unusual(seed)
    settings = _settings(seeds.rng(seed, "swarm", "settings"))
    if seeds.rng(seed, "swarm", "clients").random() < BROKERS_CHANCE:
        settings[CLIENTS] = "brokers"
    settings = {name: value for name, value in settings.items() if traits.takes(name)}
    asked: dict[str, str] = given.pop("settings", {})
    settings |= asked
    spec = {**drawn, **given}
    if spec["workload"] in traits.observed and "observers" not in given:
        spec["observers"] = max(1, spec["observers"])  # there must be somebody to look at
    if workloads.traits(spec["workload"]).on_brokers:
        spec["observers"] = max(1, spec["observers"])  # there must be somebody to read from,
        clients_min = spec["voters"] + spec["observers"]  # and somebody who reads
        spec["concurrency"] = given.get("concurrency") or max(spec["concurrency"], clients_min)
    if spec["workload"] == "membership":
        settings = {**settings, QUORUM: "dynamic"}  # there must be voters to change,
        spec["voters"] = max(MEMBERS_MIN, spec["voters"])
        left = tuple(name for name in spec["nemeses"] if name not in unfit("membership"))
        spec["nemeses"] = given.get("nemeses") or left or ("none",)
    for name, values in traits.ranges(settings).items():
        drawn_value = seeds.rng(seed, "swarm", "settings", name).choice(values)
        settings = {**settings, name: drawn_value, **asked}
    if spec["nemeses"] == ("none",) and "weather" not in given:
        spec.pop("weather", None)  # calm is calm
    if "time_limit_s" not in given:
        least = len(given.get("nemeses", ()))  # what was asked for comes in time
        spec["time_limit_s"] = _length_s(seed, spec, settings, least)
    elif "pace" not in given:
        spec["pace"] = _in_time(seed, spec, settings)
    return RunSpec(seed=seed, env=SIM, settings=settings, **spec)


def _is_drawn(workload: str, traits: SystemTraits) -> bool:
    """Tell whether a workload is one of those that a system has the swarm draw."""
    return _is_served(workload, traits) and workload in (traits.drawn or WORKLOADS)


def _is_served(workload: str, traits: SystemTraits) -> bool:
    """Tell whether a system goes with a workload."""
    return traits.workloads is None or workload in traits.workloads


def _unusual(seed: int) -> dict[str, Any]:
    """Draw moments, lengths and weather, each from a stream of its own, for a few of the seeds."""
    moments, lengths, sky = (seeds.rng(seed, "swarm", n) for n in ("moments", "lengths", "weather"))
    found: dict[str, Any] = {}
    if moments.random() < MOMENTS_CHANCE:
        found["moments"] = moments.randint(1, MOMENTS_MAX)
    if lengths.random() < LENGTHS_CHANCE:
        found["pace"] = lengths.choice(LENGTHS)
    if sky.random() < WEATHER_CHANCE:
        found["weather"] = sky.choice(list(WEATHERS))
    return found


def _length_s(seed: int, spec: Mapping[str, Any], settings: Mapping[str, str], least: int) -> float:
    """As long as so many faults need as take about the time that was drawn, or as so many."""
    pace = paced(spec["pace"], settings)
    return length_s(seed, max(least, about(spec["time_limit_s"], pace)), pace)


def _in_time(seed: int, spec: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    """The pace that was drawn, or a brisker one that the time has room for a fault of."""
    paces = (spec["pace"], *BRIEFER)
    time_s = spec["time_limit_s"]
    return next((p for p in paces if room(seed, time_s, paced(p, settings))), STEADY)


def unfit(workload: str) -> tuple[str, ...]:
    """Name the families of faults that count on who is a voter, where clients change that.

    One disk may be all that a majority has.
    """
    return LOSSES if workload == "membership" else ()


def families() -> list[str]:
    """The families of faults that seeds draw for times, sorted."""
    drawn = {str(each.family) for _, each in nemeses if not isinstance(each, NamedOnly)}
    return sorted(drawn - AT_MOMENTS)


def _nemeses(rng: Random) -> tuple[str, ...]:
    """Each family of faults or not."""
    if rng.random() < CALM_CHANCE:
        return ("none",)
    drawn = [name for name in families() if rng.random() < FAMILY_CHANCE]
    return tuple(drawn or [rng.choice(families())])


def _settings(rng: Random) -> dict[str, str]:
    """Settings of the nodes that change what happens often and what never."""
    election_ms = rng.choice((300, 500, 1000))
    settings = {
        "controller.quorum.election.timeout.ms": election_ms,
        "controller.quorum.election.backoff.max.ms": election_ms,
        "controller.quorum.fetch.timeout.ms": 2 * election_ms,
        "controller.quorum.request.timeout.ms": 2 * election_ms,
        "controller.quorum.append.linger.ms": rng.choice((0, 0, 5, 25)),
        "metadata.max.idle.interval.ms": rng.choice((100, 500, 0)),
        QUORUM: rng.choice(("static", "dynamic")),
        "broker.session.timeout.ms": rng.choice((2000, 9000)),
        "broker.heartbeat.interval.ms": rng.choice((300, 1000)),
    }
    if rng.random() < 0.5:  # noqa: PLR2004 - every other cluster makes snapshots all the time
        settings |= {
            "metadata.log.max.record.bytes.between.snapshots": rng.choice((2_000, 8_000, 20_000)),
            "metadata.max.retention.bytes": rng.choice((1, 4_000, 30_000)),
            "metadata.log.segment.bytes": rng.choice((4_096, 16_384)),
            "krucible.log.clean.interval.ms": 500,
        }
    return {name: str(value) for name, value in settings.items()}


def _weighted(rng: Random, weights: Mapping[Any, float]) -> Any:
    return rng.choices(list(weights), list(weights.values()))[0]
