"""Makes the arguments of the commands that a night runs as processes."""

from __future__ import annotations

from pathlib import Path

from harness.nightly.entries import Canary, Live


def run_arguments(live: Live, seed: int, store: Path) -> list[str]:
    """Make the arguments of ``krucible run`` for a run of an entry."""
    settings = [
        part for key, value in live.settings.items() for part in ("--set", f"{key}={value}")
    ]
    return [
        *("run", "--seed", str(seed), "--store", str(store)),
        *("--system", live.system, "--env", live.env, "--workload", live.workload),
        *("--nemesis", ",".join(live.nemesis), "--voters", str(live.voters)),
        *("--observers", str(live.observers), "--time-limit", str(live.time_limit)),
        *("--rate", str(live.rate), "--concurrency", str(live.concurrency), "--pace", live.pace),
        *("--weather", live.weather, "--settle", str(live.settle)),
        *(() if live.mutant is None else ("--mutant", live.mutant)),
        *settings,
    ]


def canary_arguments(canary: Canary, seed: int, store: Path | str) -> list[str]:
    """Make the arguments of ``krucible run`` for a seeded bug with real processes."""
    return [
        *("run", "--mutant", canary.of, "--seed", str(seed), "--store", str(store)),
        *("--workload", canary.workload, "--time-limit", str(canary.time_limit)),
        *("--nemesis", "all"),
    ]
