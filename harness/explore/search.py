"""The search: says what to play next, and learns from what that showed. Pure, and repeatable.

A search begins with the runs of a starting corpus, if it has one. Then it changes what it has kept.
All along it plays fresh seeds, too: most of them cut short after their first fault, so that more
seeds are played in the same time.

Everything is drawn from the search's seed and from what the runs before showed. Candidates are
asked for in rounds, and a round is learnt from as a whole and in its order, so that the search is
the same however many are played at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from harness import seeds
from harness.explore.corpus import Corpus
from harness.explore.features import Seen
from harness.explore.moves import Stuff, changed, cut_short
from harness.shrink.moves import Candidate

ROUND = 8  # candidates
FRESH_SHARE = 0.3  # of the candidates: seeds of the swarm
WHOLE_SHARE = 0.25  # of the seeds: as long as they are drawn; the others are cut short


@dataclass(frozen=True, slots=True)
class Step:
    """A candidate that is to be played."""

    number: int  # of the search's candidates, from 0 on
    candidate: Candidate
    fresh: bool  # a seed of the swarm, whole or cut short
    tentative: bool = False  # changed, or cut short: too little may happen in it to judge anything


class Search:
    """A guided search.

    Args:
        seed: Decides everything that the search draws.
        drawn: Gives the candidate of a seed of the swarm.
        starting: Candidates to begin with, in their order, beside fresh seeds.
    """

    def __init__(
        self,
        seed: int,
        drawn: Callable[[int], Candidate],
        starting: Iterable[Candidate] = (),
    ) -> None:
        self.corpus = Corpus()
        self._starting = iter(starting)
        self._seed = seed
        self._drawn = drawn
        self._number = 0

    def round(self) -> list[Step]:
        """Give the next candidates, to be played in any order."""
        steps = [self._step(self._number + n) for n in range(ROUND)]
        self._number += ROUND
        return steps

    def learn(self, step: Step, seen: Seen) -> int:
        """Take in what a candidate showed, in the order of the round; the count of new features."""
        return self.corpus.learn(step.candidate, seen)

    def _step(self, number: int) -> Step:
        rng = seeds.rng(self._seed, "explore", number)
        fresh = self._drawn(self._seed + number)
        if rng.random() >= FRESH_SHARE:
            if (next_ := next(self._starting, None)) is not None:
                return Step(number, next_, fresh=False)
            if self.corpus.entries:
                return Step(number, self._changed(fresh, rng), fresh=False, tentative=True)
        if rng.random() < WHOLE_SHARE:
            return Step(number, fresh, fresh=True)
        return Step(number, cut_short(fresh), fresh=True, tentative=True)

    def _changed(self, fresh: Candidate, rng: Random) -> Candidate:
        parent = self.corpus.choose(rng)
        moments = sorted({parent.moments[name] for name in self.corpus.rare(parent)})
        stuff = Stuff(moments, self.corpus.choose(rng).candidate, fresh, rng)
        return changed(parent.candidate, stuff)
