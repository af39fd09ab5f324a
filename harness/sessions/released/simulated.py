"""Bugs of releases are hunted in the simulator."""

from __future__ import annotations

from harness.sessions.plan import Plan
from harness.sessions.released.chase import Played
from harness.sessions.released.quarry import Quarry
from harness.sessions.simulated import reason_of, simulate


def simulated(quarry: Quarry, seed: int, release: str) -> tuple[Played | None, str | None]:
    """Simulate a seed with a release; see ``chase.Play``."""
    try:
        run = simulate(Plan.simulated(quarry.spec(seed, release), asked_for=False))
    except Exception as error:  # told at the end: it must not cost the other seeds
        return None, reason_of(error)
    told = {each.invariant: each.message for each in reversed(run.judgement.anomalies)}
    known = frozenset(run.judgement.known)
    return Played(told, known, run.simulated_ns / 1e9), run.broken
