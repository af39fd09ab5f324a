"""Choose the items of a failure to leave out next, by the probability that each is needed.

Every item has a probability of being needed. Those are left out together of which most are gone on
average, the least likely ones first. When that does not fail any more, one of them was needed, and
each is the likelier for it (Bayes); an item that was left out alone in vain is needed for sure. So
what was learned in each try decides the size of the next, where plain delta debugging begins with
halves again. How many items a failure needs is not known: all is reckoned for several shares, and
each share counts by how well it foresaw what came.

Source: Wang, Shen, Chen, Xiong, Zhang, "Probabilistic Delta Debugging" (ESEC/FSE 2021), ProbDD; the
several shares are ours, in place of one that has to be set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHARES = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6)  # of items that a failure may need
SURE = 0.999
GROUP_BONUS = 1.5  # of one kind all are needed or none, rather than of as many others


@dataclass(slots=True)
class _Guess:
    """The probabilities, if a failure needs such a share of its items."""

    weight: float
    needed: list[float]  # the probability of each item, by its place

    def free(self, out: Iterable[int]) -> float:
        """The probability that none of them is needed."""
        product = 1.0
        for place in out:
            product *= 1.0 - self.needed[place]
        return product

    def copy(self) -> _Guess:
        return _Guess(self.weight, list(self.needed))


class Beliefs:
    """Beliefs how likely each item is needed, by its place; they change with each try.

    Args:
        count: How many items there are.
        groups: Sets of places that may be needed or not as a whole.
    """

    def __init__(self, count: int, groups: Iterable[frozenset[int]] = ()) -> None:
        self.kept = tuple(range(count))
        self._groups = tuple(groups)
        self._guesses = [_Guess(1.0, [share] * count) for share in SHARES]

    def ahead(self, count: int) -> list[frozenset[int]]:
        """Plan at most so many tries: the sets to leave out, each if the try before does not fail.

        Empty when every item that is left is needed for sure.
        """
        later = Beliefs(0, self._groups)
        later.kept, later._guesses = self.kept, [guess.copy() for guess in self._guesses]
        plan: list[frozenset[int]] = []
        while len(plan) < count and (out := later._next()):
            plan.append(out)
            later.missed(out)
        return plan

    def gone(self, out: frozenset[int]) -> None:
        """Note that the failure remains without these items: they are not needed."""
        for guess in self._guesses:
            guess.weight *= max(guess.free(out), 1.0 - SURE)
        self.kept = tuple(place for place in self.kept if place not in out)

    def missed(self, out: frozenset[int]) -> None:
        """Note that the failure goes away without these items: at least one of them is needed."""
        for guess in self._guesses:
            some = 1.0 - guess.free(out)
            guess.weight *= some
            for place in out:
                guess.needed[place] = min(1.0, guess.needed[place] / some)

    def _next(self) -> frozenset[int]:
        whole = sum(guess.weight for guess in self._guesses)
        needed = {n: sum(g.weight * g.needed[n] for g in self._guesses) / whole for n in self.kept}
        open_ = sorted((n for n in self.kept if needed[n] < SURE), key=lambda n: (needed[n], n))
        best, best_gain = 0, 0.0
        free = [1.0] * len(self._guesses)
        for count, place in enumerate(open_, start=1):
            free = [f * (1.0 - g.needed[place]) for f, g in zip(free, self._guesses, strict=True)]
            chance = sum(f * g.weight for f, g in zip(free, self._guesses, strict=True))
            if count * chance > best_gain:
                best, best_gain = count, count * chance
        out, allowed = frozenset(open_[:best]), set(open_)
        for group in self._groups:
            left = group.intersection(self.kept)
            if 1 < len(left) < len(self.kept) and left <= allowed:
                chance = sum(g.weight * g.free(left) for g in self._guesses)
                if GROUP_BONUS * len(left) * chance > best_gain:
                    out, best_gain = left, GROUP_BONUS * len(left) * chance
        return out


def families(names: Sequence[str]) -> list[frozenset[int]]:
    """The places of each name that occurs more than once."""
    places: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, set()).add(place)
    return [frozenset(group) for group in places.values() if len(group) > 1]
