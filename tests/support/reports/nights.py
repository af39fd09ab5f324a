"""Summaries of nights for the fleet report's tests, made as ``krucible nightly`` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.nightly import outcome
from harness.nightly.entries import Canary, Sim
from harness.nightly.ledger import Night as Ledgered
from harness.nightly.plan import Plan
from harness.processes.command import KRUCIBLE
from harness.store.signatures import signature
from reports.fleet.nights import Night, night_of

Line = dict[str, Any]
PLAN: Final = Plan(
    budget="1h",
    sim=(Sim(name="swarm"), Sim(name="disks", nemesis=("disk",)), Sim(name="m", mutant="no-flush")),
    canary=(Canary(mutant="forgotten-vote"),),
)
CAUGHT: Final[Line] = {
    "t": "canary",
    "name": "forgotten-vote",
    "caught": True,
    "by": ["S3"],
    "elapsed_s": 2.0,
    "why": "",
}
MISSED: Final[Line] = {**CAUGHT, "caught": False, "by": [], "why": "40 seeds broke nothing"}


def seeds(
    count: int, entry: str = "sim:swarm", verdict: str = "valid", first: int = 1, **more: Any
) -> list[Line]:
    """Lines of judged seeds, from the first."""
    line = {"t": "seed", "entry": entry, "verdict": verdict, "invariants": [], **more}
    return [{**line, "seed": seed} for seed in range(first, first + count)]


def broken(count: int, message: str, entry: str = "sim:swarm", **more: Any) -> list[Line]:
    """Lines of seeds that broke S3."""
    found = signature("S3", message)
    more = {"message": message, "signature": found, "invariants": ["S3"], **more}
    return seeds(count, entry, "invalid", **more)


def growth(steps: int = 40, premises: dict[str, list[int]] | None = None) -> list[Line]:
    """Lines of a night that shows fewer new features with each step, and what was watched."""
    lines: list[Line] = []
    for step in range(steps):
        entry = ("sim:swarm", "sim:disks")[step % 3 == 0]
        new = [f"then {step} {n}" for n in range(900 // (step + 1))]
        lines += seeds(1, entry, first=90_000 + step, new=new)
        lines.append({"t": "spent", "entry": entry, "s": 90.0})
    told = {"S11": [900, 40, 412], "C5": [3, 1, 380], **(premises or {})}
    return [*lines, {"t": "reached", "counts": {}, "premises": told}]


def summary(*lines: Line, at: str = "2026-01-02T03:04:05+00:00") -> dict[str, Any]:
    """The summary of a night of ``PLAN`` that worked for 59 minutes."""
    night = Ledgered()
    lines = (
        {"t": "begin", "at": at, "first_seed": 1},
        {"t": "reached", "counts": {"op ok": 1234, "vote granted": 7}},
        {"t": "spent", "entry": "sim:swarm", "s": 3540.0},
        *lines,
    )
    for line in lines:
        night.take(line)
    code = outcome.exit_code(PLAN, night)
    return outcome.summary(PLAN, night, Path("/s"), KRUCIBLE, code=code)


def night(*lines: Line, at: str = "2026-01-02T03:04:05+00:00") -> Night:
    """The same as the report reads it."""
    return night_of(summary(*lines, at=at), f"nights/{at}")
