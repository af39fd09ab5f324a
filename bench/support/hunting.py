"""Hunt for a change of the node in the process in which it was made.

A calm run comes first, then the runs that ``krucible explore`` begins with: the starting corpus,
and fresh seeds of the swarm among them. They last for more than two minutes of one processor. What
a search plays after them depends on what it has learnt; here fresh seeds alone follow. Or all runs
are seeds of the swarm, each as long as it is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any, Final

from bench.support.mutations import reached
from bench.support.reach import CALM, Played
from harness.errors import NodeStartError
from harness.explore.play import candidate_of
from harness.explore.search import Search
from harness.explore.starting import OURS, fitting, load
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import found
from harness.shrink.moves import Candidate
from harness.spec import SIM, RunSpec
from harness.verdict import Valid

COMPARED = 6  # seeds that reach a place; whose bytes tell whether its change does anything
SEED: Final = 1  # of the search
EXPLORE, SWARM = "explore", "swarm"
CALM_SPEC = RunSpec(seed=1, env=SIM, voters=3, observers=2, nemeses=(), time_limit_s=10.0)


def control(budget_s: float, by: str) -> dict[str, Any]:
    """Play the calm run, then the others, on the unchanged node, for so many CPU seconds.

    Returns:
        ``runs``: CPU seconds and the hash of the trace of each, and ``alarm``: the first one.
    """
    runs, spent_s = list[tuple[float, str]](), 0.0
    for number in count(CALM):
        began_s = time.process_time()
        run = play(number, by)
        cpu_s = time.process_time() - began_s
        runs.append((round(cpu_s, 3), run.trace_sha256))
        if run.broken is not None or run.verdict is Valid.INVALID:
            why = run.broken or ", ".join(sorted(found(run)))
            return {"runs": runs, "alarm": f"run {number}: {why}"}
        spent_s += cpu_s
        if spent_s >= budget_s:
            return {"runs": runs, "alarm": None}
    raise AssertionError("a count has no end")


def hunt(known: Sequence[Played], budget_s: float, by: str) -> dict[str, Any]:
    """Play the calm run, then the others until something is caught; give the outcome.

    A run that does not come to the place is not played: it is as on the unchanged node, and so is
    its time.

    Args:
        known: The runs of the unchanged node, by number.
        budget_s: CPU seconds for them; a run that is under way then is finished.
        by: ``explore`` or ``swarm``.
    """
    if not any(each.reaches for each in known):
        return {"outcome": "unreached"}
    try:
        calm = play(CALM, by)
    except Exception as error:  # of the harness, which reads logs as nodes do
        return {"outcome": "dead", "by": [], "why": repr(error)}
    if calm.verdict is not Valid.VALID:
        return {"outcome": "dead", "by": sorted(found(calm)), "why": calm.broken}
    differs = calm.trace_sha256 != known[CALM].sha256
    spent_s, alike = 0.0, 0
    for number in count(CALM + 1):
        before = known[number] if number < len(known) else None
        if before is None or before.reaches:
            began_s = time.process_time()
            try:
                run = play(number, by)
            except Exception as error:
                return {"outcome": "broken", "why": repr(error), "run": number}
            spent_s += time.process_time() - began_s
            done = {"run": number, "cpu_s": round(spent_s, 1)}
            if run.verdict is Valid.INVALID:
                why = next((a.message for a in run.judgement.anomalies), None)
                return {"outcome": "caught", "by": sorted(found(run)), "why": why, **done}
            if run.broken is not None:
                return {**_stopped(run.broken), **done}
            if before is not None:
                differs = differs or run.trace_sha256 != before.sha256
                alike += 1
        else:
            spent_s += before.cpu_s
        is_over = spent_s >= budget_s
        if not differs and reached() and (is_over or alike >= COMPARED):
            return {"outcome": "same", "run": number, "cpu_s": round(spent_s, 1)}
        if is_over:
            outcome = "survived" if reached() else "unreached"
            return {"outcome": outcome, "run": number, "cpu_s": round(spent_s, 1)}
    raise AssertionError("a count has no end")


def _stopped(why: str) -> dict[str, Any]:
    """Classify a run that did not end: a node that cannot start is caught, else we are at fault."""
    if NodeStartError.__name__ in why:
        return {"outcome": "caught", "by": ["start"], "why": why}
    return {"outcome": "broken", "why": why}


def play(number: int, by: str) -> SimRun:
    """Play the calm run, or what the search or the swarm plays as its run of that number."""
    if number == CALM:
        return simulate(Plan.simulated(CALM_SPEC, asked_for=False))
    if by == SWARM:
        return simulate(Plan.simulated(draw(number), asked_for=False))
    played, steps = _begun()
    while len(played) < number:
        played.append(next(steps))
    run = played[number - 1]
    return simulate(Plan.simulated(run.spec, run.faults, asked_for=False))


@cache
def _begun() -> tuple[list[Candidate], Iterator[Candidate]]:
    """Give what a search that learns nothing plays: so far none, and all that is to come."""
    search = Search(SEED, drawn, fitting(load(OURS), {}))
    return [], (step.candidate for _ in count() for step in search.round())


def drawn(seed: int) -> Candidate:
    """Give a seed of the swarm."""
    return candidate_of(Plan.simulated(draw(seed), asked_for=False))
