"""A minimal core: a few calls of one key that contradict each other, whatever the others did.

To leave a call out is to ask less of the history. A call that only observes is gone. A mutator is
set free: it takes effect at any moment from the start on, or never. So a set of calls that fails
with all others left out shows that the whole history fails, and it fails alone, too. Asking less
never makes a failing set of what did not fail, so one pass over the calls leaves a set of which
none can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from checkers.cores.deletion import least
from checkers.limits.budget import Budget
from checkers.linearizability.calls import Call
from checkers.linearizability.search import search
from harness.contracts.model import Model, State

_GROWTH = 4  # of the stretch that is tried, each time
_CLOSURES_MAX = 8  # times that calls are added which others may rest on


@dataclass(frozen=True, slots=True)
class Core:
    """Calls that contradict each other, by where they began; ``minimal``: none can be left out."""

    calls: tuple[Call, ...]
    minimal: bool


def find_core(
    calls: Sequence[Call], window: Iterable[Call], model: Model, start: State, budget: Budget
) -> Core | None:
    """Find a core of calls that fail from the state ``start``.

    None when they do not, or when the budget is too small to find out. ``window``: the calls that
    the search for one begins with. At most two searches for each call in question, and one for
    each stretch on the way to one that fails.
    """
    tries = _Tries(calls, model, start, budget)
    places = {call.begin: place for place, call in enumerate(calls)}
    kept = tries.grow({places[call.begin] for call in window})
    if kept is None:
        return None
    kept, minimal = least(kept, tries.fails, lambda: bool(budget.left_s()), monotone=True)
    return Core(tuple(calls[place] for place in sorted(kept)), minimal)


class _Tries:
    """Searches over some of the calls, with all others left out."""

    def __init__(self, calls: Sequence[Call], model: Model, start: State, budget: Budget) -> None:
        self._calls = calls
        self._model = model
        self._start = start
        self._budget = budget

    def grow(self, kept: Set[int]) -> Set[int] | None:
        """A set that fails, with ever more calls before the last; None when none was found."""
        size = len(kept)
        while True:
            kept = kept | set(range(len(self._calls) - size, len(self._calls)))
            for _ in range(_CLOSURES_MAX):
                rested_on = {place for place, _ in self._free(kept)}
                kept = kept | rested_on
                if not rested_on:
                    break
            if self.fails(kept):
                return kept
            if size == len(self._calls):
                return None
            size = min(len(self._calls), size * _GROWTH)

    def fails(self, kept: Set[int]) -> bool | None:
        """Tell whether these calls have no order; None when the budget ran out before that."""
        freed = [
            replace(self._calls[place], begin=-1 - number, end=None)
            for number, (place, _) in enumerate(self._free(kept))
        ]
        mine = [self._calls[place] for place in sorted(kept)]
        found = search([*reversed(freed), *mine], self._model, [self._start], self._budget)
        return None if found.linearizable is None else not found.linearizable

    def _free(self, kept: Set[int]) -> list[tuple[int, Call]]:
        """The mutators that are left out and may be of use to the others."""
        out = [
            (place, call)
            for place, call in enumerate(self._calls)
            if place not in kept and not call.action.observes
        ]
        mine = [self._calls[place] for place in sorted(kept)]
        unknown = [call.action for call in mine if call.end is None]
        known = [call.action for call in mine if call.end is not None]
        useful = self._model.useful([call.action for _, call in out] + unknown, known)
        return [each for each, of_use in zip(out, useful, strict=False) if of_use]
