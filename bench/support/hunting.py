"""Hunt for a change of the node in the process in which it was made: calm first, then the swarm."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count
from typing import Any

from bench.support.mutations import reached
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import found
from harness.spec import SIM, RunSpec
from harness.verdict import Valid

COMPARED = 6  # seeds of the swarm whose bytes tell whether a change does anything
CALM = RunSpec(seed=1, env=SIM, voters=3, observers=2, nemeses=(), time_limit_s=10.0)


def hashes() -> dict[str, str]:
    """Give the hashes of this node's traces: of the calm run, and of the first seeds by number."""
    seeds = {str(seed): _swarm(seed).trace_sha256 for seed in range(1, COMPARED + 1)}
    return {"calm": _calm().trace_sha256, **seeds}


def control(budget_s: float) -> str | None:
    """Play the swarm on the unchanged node for so many CPU seconds; tell of its first alarm."""
    began_s = time.process_time()
    for seed in count(1):
        run = _swarm(seed)
        if run.broken is not None or run.verdict is Valid.INVALID:
            return f"seed {seed}: {run.broken or ', '.join(sorted(found(run)))}"
        if time.process_time() - began_s >= budget_s:
            return None
    raise AssertionError("a count has no end")


def hunt(same: Mapping[str, str], budget_s: float) -> dict[str, Any]:
    """Play the calm run, then the swarm until something is caught; give the outcome.

    Args:
        same: The hashes of the unchanged node.
        budget_s: CPU seconds for the swarm; a seed that is under way then is finished.
    """
    try:
        calm = _calm()
    except Exception as error:  # of the harness, which reads logs as nodes do
        return {"outcome": "dead", "by": [], "why": repr(error)}
    if calm.verdict is not Valid.VALID:
        return {"outcome": "dead", "by": sorted(found(calm)), "why": calm.broken}
    differs = calm.trace_sha256 != same["calm"]
    began_s = time.process_time()
    for seed in count(1):
        try:
            run = _swarm(seed)
        except Exception as error:
            return {"outcome": "broken", "why": repr(error), "seed": seed}
        cpu_s = time.process_time() - began_s
        done = {"seed": seed, "cpu_s": round(cpu_s, 1)}
        if run.verdict is Valid.INVALID:
            why = next((a.message for a in run.judgement.anomalies), None)
            return {"outcome": "caught", "by": sorted(found(run)), "why": why, **done}
        if run.broken is not None:
            return {"outcome": "broken", "why": run.broken, **done}
        differs = differs or (seed <= COMPARED and run.trace_sha256 != same[str(seed)])
        if seed >= COMPARED and not differs and reached():
            return {"outcome": "same", **done}
        if cpu_s >= budget_s:
            return {"outcome": "survived" if reached() else "unreached", **done}
    raise AssertionError("a count has no end")


def _calm() -> SimRun:
    return simulate(Plan.simulated(CALM, asked_for=False))


def _swarm(seed: int) -> SimRun:
    return simulate(Plan.simulated(draw(seed), asked_for=False))
