"""Lines of a night's ledger, and the summary that they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.nightly import entries, outcome, plan
from harness.nightly.ledger import Night
from harness.processes.command import KRUCIBLE

CANARY = {
    "t": "canary",
    "name": "forgotten-vote",
    "caught": True,
    "by": ["S3"],
    "seed": 1,
    "elapsed_s": 1.0,
    "why": "",
}
PLAN = plan.Plan(
    budget="1h", sim=(entries.Sim(name="a"),), canary=(entries.Canary(mutant="forgotten-vote"),)
)


def seed_line(seed: int, verdict: str = "valid", **more: Any) -> dict[str, Any]:
    """A judged seed."""
    line = {"t": "seed", "entry": "sim:a", "seed": seed, "verdict": verdict, "invariants": []}
    return {**line, "simulated_s": 1.0, **more}


def told_of(wanted: plan.Plan, *lines: dict[str, Any]) -> dict[str, Any]:
    """The summary of a night with these lines."""
    night = Night()
    for line in ({"t": "begin", "first_seed": 5}, *lines):
        night.take(line)
    code = outcome.exit_code(wanted, night)
    return outcome.summary(wanted, night, Path("/s"), KRUCIBLE, code=code)


def bad(seed: int, **more: Any) -> dict[str, Any]:
    """A line of a seed that broke S1."""
    more = {"invariants": ["S1"], "signature": "S1: two lead", **more}
    return seed_line(seed, "invalid", **more)
