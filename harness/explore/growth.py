"""Counts features: of which kinds they are, and how many the last runs brought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

LAST: Final = 10  # the last tenth tells whether more time would bring more


def kinds(features: Iterable[str]) -> dict[str, int]:
    """Count features by their kind, which is their first word."""
    return dict(sorted(Counter(name.partition(" ")[0] for name in features).items()))


def of_last_tenth(known: Sequence[int]) -> int | None:
    """Tell how many features the last tenth of equal parts brought; None of less than ten parts.

    Args:
        known: How many there were after each part.
    """
    tenth = len(known) // LAST
    return known[-1] - known[-tenth - 1] if tenth else None


def first_shown(shown: Mapping[str, int], seeds: Sequence[int]) -> list[int]:
    """Give how many features were known after each seed, in their order.

    Args:
        shown: Each feature, with the first seed that showed it.
        seeds: Sorted.
    """
    new = Counter(shown.values())
    known, total = [], 0
    for seed in seeds:
        total += new[seed]
        known.append(total)
    return known
