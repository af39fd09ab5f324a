"""Distils a starting corpus: of many runs, few cheap ones that show most of what all showed.

A budgeted maximum coverage, solved greedily: next comes always the run that brings most for its
cost. A feature that no chosen run shows counts one, each run that shows it already halves that, so
that what is rare comes first and what is common comes in more than one company. Gains only fall as
runs are chosen, so an old gain is an upper bound, and few are computed anew (Minoux, "Accelerated
greedy algorithms", 1978).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from harness.shrink.moves import Candidate

DECAY: Final = 0.5  # of what a feature counts, for each chosen run that shows it
CORPUS_COST: Final = 1_200_000  # events: some hundred seconds of one processor
START_COST: Final = 2_000  # events: what it costs about to begin and to judge any run


@dataclass(frozen=True, slots=True)
class Shown:
    """A run that was valid, with all its features.

    Args:
        candidate: The run, to be played again.
        features: Each once.
        events: So many it had; they say best what a simulation costs, and are the same everywhere.
    """

    candidate: Candidate
    features: Collection[str]
    events: int

    @property
    def cost(self) -> int:
        """The cost in events, with what any run costs."""
        return self.events + START_COST


def distilled(runs: Sequence[Shown], budget: int) -> list[Shown]:
    """Choose runs that together cost at most ``budget`` events, in the order to play them.

    The same runs give the same choice. What shows nothing is never chosen.
    """
    covered: Counter[str] = Counter()

    def gain(run: Shown) -> float:
        return sum(DECAY ** covered[name] for name in run.features) / run.cost

    bounds = [(-gain(run), place) for place, run in enumerate(runs) if run.features]
    heapify(bounds)
    chosen: list[Shown] = []
    while bounds:
        _, place = heappop(bounds)
        run = runs[place]
        if run.cost > budget:
            continue
        now = gain(run)
        if bounds and now < -bounds[0][0]:
            heappush(bounds, (-now, place))
            continue
        chosen.append(run)
        covered.update(run.features)
        budget -= run.cost
    return chosen
