"""The scenario that shows a seeded bug, as plain data: a small cluster, its work and its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

# Nodes take snapshots all the time and keep next to no log: who falls behind fetches a snapshot.
SNAPSHOTS_ONLY: Final[Mapping[str, str]] = {
    "metadata.log.max.record.bytes.between.snapshots": "100",
    "metadata.max.idle.interval.ms": "50",
    "metadata.max.retention.bytes": "1",
    "metadata.log.segment.bytes": "300",
    "krucible.log.clean.interval.ms": "100",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulated run that catches one bug; the fields are those of a run's options.

    ``faults``, if any, are the schedule: objects with ``nemesis``, ``at_ms``, ``duration_ms`` and
    perhaps ``params`` and ``draw``. Without them a schedule of ``nemeses`` is drawn from the seed.
    ``seeds`` are to be tried in this order until one catches it.
    """

    seeds: tuple[int, ...] = (1,)
    voters: int = 3
    observers: int = 0
    workload: str = "register"
    nemeses: tuple[str, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    time_limit_s: float = 8.0
    rate_hz: float = 10.0
    concurrency: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The scenario as a JSON object."""
        return asdict(self)


def fault(nemesis: str, at_s: float, duration_s: float, **params: Any) -> dict[str, Any]:
    """One fault of a schedule; ``draw=`` decides what the other params leave open."""
    draw = params.pop("draw", 0.0)
    return {
        "nemesis": nemesis,
        "at_ms": int(at_s * 1_000),
        "duration_ms": int(duration_s * 1_000),
        "params": params,
        "draw": draw,
    }
