"""Weather: links between nodes that are slow or lossy from a run's first second to its last.

It is an entry of the schedule, a fault as long as the run, and so is replayed, told and healed as
every other; the shrinker may do without it. Faults of links that come meanwhile add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness import registry
from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.spec import FAIR

# What is done to all links, by what ``--weather`` calls it: a nemesis and its params.
WEATHERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "slow": ("slow-links", {"delay_ms": 15, "jitter_ms": 10}),
    "far": ("slow-links", {"delay_ms": 40, "jitter_ms": 20}),
    "uneven": ("slow-links", {"delay_ms": 0, "jitter_ms": 80}),
    "lossy": ("lossy-links", {"loss": 0.02}),
    "stormy": ("lossy-links", {"loss": 0.08}),
}


def told(name: str) -> str:
    """Weather in words, for the help."""
    if name == FAIR:
        return FAIR
    params = WEATHERS[name][1]
    if "loss" in params:
        return f"{name} (loses {params['loss']:.0%})"
    delay_ms, jitter_ms = params["delay_ms"], params["jitter_ms"]
    return f"{name} ({delay_ms} to {delay_ms + jitter_ms} ms)"


def faults(name: str, time_limit_s: float, first_id: int) -> list[Fault]:
    """The weather as faults of a schedule; none when it is fair.

    Raises:
        UsageError: There is no such weather.
    """
    if name == FAIR:
        return []
    if name not in WEATHERS:
        raise UsageError(registry.unknown("weather", name, [FAIR, *WEATHERS]))
    nemesis, params = WEATHERS[name]
    every = {"target": "all", "way": "both", **params}
    return [Fault(first_id, nemesis, 0, int(time_limit_s * 1_000), every)]
