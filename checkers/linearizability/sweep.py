"""Zones of many keys in one sweep: which keys of a large history are surely linearizable.

The rules are those of ``linearizable_zones``. Rows are read in their order, without splitting them
by key first, which would cost more than the judging.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from math import inf

from checkers.linearizability.columns import Columns


def doubtful(columns: Columns, start: Hashable) -> set[Hashable]:
    """The keys that zones do not show to be linearizable: to be judged one by one. O(n log n)."""
    assert columns.key is not None  # noqa: S101
    blocks: dict[Hashable, dict[Hashable, int]] = {
        key: {start: at} for at, key in enumerate(dict.fromkeys(columns.key))
    }
    owner: list[Hashable] = list(blocks)
    wrote = [-inf] * len(owner)
    first, last = wrote.copy(), wrote.copy()
    doubt: set[Hashable] = set()
    rows = zip(columns.f, columns.value, columns.begin, columns.end, columns.key, strict=True)
    for f, value, b, e, key in rows:
        if f == "write":
            block = blocks[key]
            if value in block:
                doubt.add(key)
            block[value] = len(first)
            wrote.append(b)
            first.append(e)
            last.append(b)
            owner.append(key)
        elif f != "read":
            doubt.add(key)
    rows = zip(columns.f, columns.seen, columns.begin, columns.end, columns.key, strict=True)
    for f, seen, b, e, key in rows:
        if f == "read" and e != inf:
            at = blocks[key].get(seen)
            if at is None or e < wrote[at]:
                doubt.add(key)
                continue
            if e < first[at]:  # noqa: PLR1730 - calls of min and max would cost twice as much
                first[at] = e
            if b > last[at]:  # noqa: PLR1730
                last[at] = b
    return doubt | _overlapping(owner, first, last)


def _overlapping(owner: list[Hashable], first: list[float], last: list[float]) -> set[Hashable]:
    """The keys of which two blocks have to come before each other."""
    found: set[Hashable] = set()
    zones: dict[Hashable, tuple[list[float], list[float]]] = {}
    forward = [at for at, (f, s) in enumerate(zip(first, last, strict=True)) if f < s]
    forward.sort(key=first.__getitem__)
    for at in forward:
        firsts, lasts = zones.setdefault(owner[at], ([], []))
        if lasts and first[at] < lasts[-1]:
            found.add(owner[at])
        firsts.append(first[at])
        lasts.append(last[at])
    none: tuple[list[float], list[float]] = ([], [])
    for f, s, key in zip(first, last, owner, strict=True):
        if f >= s:
            firsts, lasts = zones.get(key, none)
            before = bisect_left(firsts, s) - 1
            if before >= 0 and f < lasts[before]:
                found.add(key)
    return found
