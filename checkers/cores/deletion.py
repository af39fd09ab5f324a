"""Leaves members out of a set that fails, until none can be left out.

Deletion-based minimal unsatisfiable subsets; Zeller's chunks come first, so that a large set of
which little is needed shrinks fast.
"""

from __future__ import annotations

from collections.abc import Callable, Set


def least(
    kept: Set[int],
    fails: Callable[[Set[int]], bool | None],
    go_on: Callable[[], bool],
    *,
    monotone: bool,
) -> tuple[Set[int], bool]:
    """The set without what can be spared, and whether nothing more can.

    ``fails`` tells whether some members fail, None where that was not found out; ``go_on`` False
    ends the search. ``monotone``: what fails does so with more members, too; else members are
    tried again after each that went.
    """
    minimal = True
    optional = sorted(kept)
    size = max(1, len(optional) // 2)
    while True:
        before = len(kept)
        for at in range(0, len(optional), size):
            fewer = kept - set(optional[at : at + size])
            failed = fails(fewer)
            if failed:
                kept = fewer
            minimal &= failed is not None or size > 1
            if not go_on():
                return kept, False
        optional = [member for member in optional if member in kept]
        if size > 1:
            size = max(1, min(size // 2, len(optional) // 2))
        elif monotone or len(kept) == before:
            return kept, minimal
