"""Bugs of releases are hunted in processes, of the affected and of the fixed release.

Each run is a `krucible run` of its own, which is ended when it takes too long, and healed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.healing.heal import heal_all
from harness.processes.command import Program
from harness.sessions.released.chase import Play, Played
from harness.sessions.released.quarry import Quarry
from harness.spec import RunSpec

TIMES: Final = 6.0  # of its time limit that a run may take: JVMs start slowly on a busy host
LATE_S: Final = 120.0


def run_words(spec: RunSpec, store: Path) -> list[str]:
    """Give the words of ``krucible run`` for a run with these options."""
    settings = [
        part for key, value in spec.settings.items() for part in ("--set", f"{key}={value}")
    ]
    nemeses = ",".join(spec.nemeses) or "none"
    return [
        *("run", "--seed", str(spec.seed), "--store", str(store)),
        *("--system", spec.system, "--env", spec.env, "--workload", spec.workload),
        *("--nemesis", nemeses, "--voters", str(spec.voters)),
        *("--observers", str(spec.observers), "--time-limit", str(spec.time_limit_s)),
        *("--rate", str(spec.rate_hz), "--concurrency", str(spec.concurrency)),
        *("--pace", spec.pace, "--weather", spec.weather, "--settle", str(spec.settle_s)),
        *settings,
    ]


def player(program: Program, store: Path) -> Play:
    """Give what plays seeds as processes, into a store."""

    def play(quarry: Quarry, seed: int, release: str) -> tuple[Played | None, str | None]:
        spec = quarry.live_spec(seed, release)
        answer = program.run(run_words(spec, store), spec.time_limit_s * TIMES + LATE_S)
        if answer.broken is not None:
            left = [each.kind for each in heal_all() if not each.done]
            return None, answer.broken + (f"; could not heal {', '.join(left)}" if left else "")
        told = {each["invariant"]: each["message"] for each in reversed(answer.value["anomalies"])}
        known = frozenset(answer.value.get("known", ()))
        return Played(told, known), answer.value["harness_error"]

    return play
