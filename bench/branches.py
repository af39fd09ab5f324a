"""Measure whether branches pay: features that a search finds at equal CPU, with and without them.

    python bench/branches.py [--cpu 120] [--seeds 1..3] [--branches 0,1,3]

For each seed of the search, in turns: a search of so many CPU seconds without branches, and others
whose runs are forked, at most so often, where something new happens. Prints for each the features
that it knew after a half and after all of that time (between the rounds before and after), and the
ratio to the search of the same seed without branches; and what the whole runs and the branches of
its second half brought, new features by CPU second. One process at a time. Takes the CPU time of
all searches, and some more, for a round is played to its end.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from bench.support.branches import Branching, shown
from bench.support.figures import say, table
from harness import seeds
from harness.errors import HarnessError
from harness.explore.search import Search
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.shrink.moves import Candidate

APART_MS = 2_000  # of virtual time between two branches
HEAD = (
    *("seed", "branches", "runs", "CPU s", "at half", "features", "ratio"),
    *("new/s of runs", "new/s of branches"),
)


@dataclass(frozen=True, slots=True)
class Searched:
    """The figures of a search."""

    seed: int
    branches: int
    runs: int
    cpu_s: float
    half: float  # features at half of its time
    features: float
    by_runs: float | None  # new features by CPU second, of the second half
    by_branches: float | None


def drawn(seed: int) -> Candidate:
    """The candidate of a seed of the swarm."""
    plan = Plan.simulated(draw(seed), asked_for=False)
    return Candidate(plan.spec, plan.faults)


def searched(seed: int, branches: int, cpu_s: float) -> Searched:
    """Search for so long."""
    search, used_s, runs = Search(seed, drawn), 0.0, 0
    points = [(0.0, 0)]
    new = defaultdict[bool, int](int)  # of branches, and of whole runs
    spent_s = defaultdict[bool, float](float)
    while used_s < cpu_s:
        for step in search.round():
            late = used_s >= cpu_s / 2
            known = search.corpus.counts
            rng = seeds.rng(seed, "branches", step.number)
            fork = Branching(step.candidate.spec, known, rng, branches, APART_MS)
            try:
                played = shown(step.candidate, fork if branches else None)
            except HarnessError:  # its options do not go together
                continue
            for each in played:
                found = search.corpus.learn(each.candidate, each.seen)
                branch = each.candidate.spec.tape != step.candidate.spec.tape
                used_s += each.cpu_s
                runs += 1
                if late:
                    new[branch] += found
                    spent_s[branch] += each.cpu_s
            points.append((used_s, len(known)))
    rates = {kind: new[kind] / spent_s[kind] for kind in spent_s}
    half, features = known_at(points, cpu_s / 2), known_at(points, cpu_s)
    return Searched(
        *(seed, branches, runs, used_s, half, features, rates.get(False), rates.get(True))
    )


def known_at(points: Sequence[tuple[float, int]], cpu_s: float) -> float:
    """Tell how many features were known then, on the line between the points about it."""
    for (before_s, before), (after_s, after) in pairwise(points):
        if after_s >= cpu_s:
            return before + (after - before) * (cpu_s - before_s) / (after_s - before_s)
    return float(points[-1][1])


def ratios(found: Sequence[Searched]) -> dict[tuple[int, int], float]:
    """Features of each search by those of the same seed's without branches."""
    plain = {each.seed: each.features for each in found if not each.branches}
    return {(e.seed, e.branches): e.features / plain[e.seed] for e in found}


def rate(value: float | None) -> str:
    """New features by second, or nothing."""
    return "" if value is None else f"{value:.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--cpu", type=float, default=120.0, help="CPU seconds of a search")
    parser.add_argument("--seeds", default="1..3", help="seeds of searches")
    parser.add_argument("--branches", default="0,1,3", help="branches of a run, at most; 0 first")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(".."))
    arms = [int(text) for text in options.branches.split(",")]
    found = []
    for seed in range(first, last + 1):
        for branches in arms:
            found.append(searched(seed, branches, options.cpu))
            told = f"{found[-1].features:.0f} features, {found[-1].cpu_s:.0f} CPU seconds"
            say(f"seed {seed}, {branches} branches: {told}")
    by = ratios(found)
    rows = [
        (
            *(e.seed, e.branches, e.runs, f"{e.cpu_s:.0f}", f"{e.half:.0f}", f"{e.features:.0f}"),
            *(f"{by[e.seed, e.branches]:.2f}", rate(e.by_runs), rate(e.by_branches)),
        )
        for e in found
    ]
    say(table(HEAD, rows))
    for branches in arms:
        logs = [log(ratio) for (_, count), ratio in by.items() if count == branches]
        say(f"{branches} branches: {exp(sum(logs) / len(logs)):.3f} of the features without")


if __name__ == "__main__":
    main()
