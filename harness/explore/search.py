"""The search: says what to play next, and learns from what that showed. Pure, and repeatable.

A search begins with the runs of a starting corpus, if it has one, and a whole seed of the swarm now
and then: the first ones soon, for what any seed finds. After that it changes what it has kept, and
plays fresh seeds, too: most of them cut short after their first fault, so that more seeds are
played in the same time.

Everything is drawn from the search's seed and from what the runs before showed. Candidates are
asked for in rounds, and a round is learnt from as a whole and in its order, so that the search is
the same however many are played at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from harness import seeds
from harness.explore.corpus import Corpus
from harness.explore.features import Seen
from harness.explore.moves import Stuff, changed, cut_short
from harness.shrink.moves import Candidate
from harness.verdict import Valid

ROUND = 8  # candidates
WHOLE_FIRST: Final = frozenset({1, 3, 6})  # candidates that are whole seeds, beside a corpus
WHOLE_BESIDE: Final = 0.1  # of the other candidates while the starting corpus lasts
FRESH_SHARE = 0.3  # of the candidates after that: seeds of the swarm
WHOLE_SHARE = 0.25  # of these: as long as they are drawn; the others are cut short
CUT_FROM: Final = 1 << 36  # the first seed of those that are cut short, from the search's seed on


@dataclass(frozen=True, slots=True)
class Step:
    """A candidate that is to be played."""

    number: int  # of the search's candidates, from 0 on
    candidate: Candidate
    fresh: bool  # a seed of the swarm, whole or cut short
    tentative: bool = False  # changed, or cut short: too little may happen in it to judge anything

    def leaves_open(self, verdict: Valid, *, broke: bool) -> bool:
        """Tell whether too little happened to judge it, and nothing says that more had to.

        Args:
            verdict: Of the run.
            broke: The harness did not do its work.
        """
        return self.tentative and verdict is Valid.UNKNOWN and not broke


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
        self._next = next(self._starting, None)  # of the starting corpus
        self._seed = seed
        self._drawn = drawn
        self._number = 0
        self._whole = 0  # seeds so far

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
        if self._next is not None:
            if number in WHOLE_FIRST or rng.random() < WHOLE_BESIDE:
                return self._whole_seed(number)
            run, self._next = self._next, next(self._starting, None)
            return Step(number, run, fresh=False)
        fresh = self._drawn(self._seed + CUT_FROM + number)
        if rng.random() >= FRESH_SHARE and self.corpus.entries:
            return Step(number, self._changed(fresh, rng), fresh=False, tentative=True)
        if rng.random() < WHOLE_SHARE:
            return self._whole_seed(number)
        return Step(number, cut_short(fresh), fresh=True, tentative=True)

    def _whole_seed(self, number: int) -> Step:
        """Give the next seed of the swarm, from the search's seed on."""
        seed = self._seed + self._whole
        self._whole += 1
        return Step(number, self._drawn(seed), fresh=True)

    def _changed(self, fresh: Candidate, rng: Random) -> Candidate:
        parent = self.corpus.choose(rng)
        moments = sorted({parent.moments[name] for name in self.corpus.rare(parent)})
        stuff = Stuff(moments, self.corpus.choose(rng).candidate, fresh, rng)
        return changed(parent.candidate, stuff)
