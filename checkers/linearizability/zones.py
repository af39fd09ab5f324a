"""Zones: registers whose every write has a value of its own are judged in O(n log n).

Then each read names its write. The *cluster* of a value is its write and its reads; they must
form one block of the order. With ``f`` the first return and ``s`` the last begin in a block,
block A has to come before B when ``fA < sB``; the history is linearizable exactly when each block
is in itself and no two blocks have to come before each other: no two *forward* zones (``f < s``)
overlap, and no *backward* zone (``s < f``) lies within a forward one.

A compare-and-set of a to b glues the cluster of b right behind that of a: see
``linearizable_chains``. A write of unknown outcome that was read is a write that has not
returned; one that was not read may be left out. The initial value is a write before everything.

Source: Gibbons and Korach, "Testing shared memories", 1997.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from checkers.linearizability.columns import Columns

REGISTER_FS = frozenset(("read", "write", "cas", "not"))


@dataclass(frozen=True, slots=True)
class Zones:
    """The answer: linearizable, or the rows of a few calls that already are not (``conflict``)."""

    linearizable: bool
    conflict: tuple[int, ...] = ()


VALID = Zones(linearizable=True)


def overlap(first: Sequence[float], last: Sequence[float]) -> tuple[int, int] | None:
    """Two blocks each of which has to come before the other; by first return and last begin."""
    forward = [at for at, (f, s) in enumerate(zip(first, last, strict=True)) if f < s]
    forward.sort(key=first.__getitem__)
    for one, other in pairwise(forward):
        if first[other] < last[one]:
            return one, other
    firsts = [first[at] for at in forward]
    if not firsts:
        return None
    for at, (f, s) in enumerate(zip(first, last, strict=True)):
        if f >= s:
            before = bisect_left(firsts, s) - 1
            if before >= 0 and f < last[forward[before]]:
                return forward[before], at
    return None


def by_zones(columns: Columns, start: Hashable) -> Zones | None:
    """Judge reads and writes of one register; None where the method does not apply. O(n log n).

    It does not where a value was written twice, and where there is a compare-and-set.
    """
    if "cas" in columns.f or "not" in columns.f:
        return None
    rows = [row for row, f in enumerate(columns.f) if f == "write"]
    value, begin, end = columns.value, columns.begin, columns.end
    block = {value[row]: at for at, row in enumerate(rows, start=1)}
    if len(block) < len(rows) or start in block:
        return None  # a value written twice: a read does not name its write
    block[start] = 0
    wrote = [-inf, *[begin[row] for row in rows]]
    first = [-inf, *[end[row] for row in rows]]
    last = wrote.copy()
    of = block.get
    for row, (f, seen, b, e) in enumerate(zip(columns.f, columns.seen, begin, end, strict=True)):
        if f == "read" and e != inf:
            at = of(seen)
            if at is None:
                return Zones(linearizable=False, conflict=(row,))  # nobody wrote that
            if e < first[at]:
                if e < wrote[at]:
                    return Zones(linearizable=False, conflict=tuple(sorted((rows[at - 1], row))))
                first[at] = e
            if b > last[at]:  # noqa: PLR1730
                last[at] = b
    pair = overlap(first, last)
    if pair is None:
        return VALID
    return Zones(linearizable=False, conflict=_witnesses(columns, start, rows, pair))


def _witnesses(
    columns: Columns, start: Hashable, rows: Sequence[int], pair: tuple[int, int]
) -> tuple[int, ...]:
    """The calls that make two zones what they are: writes, first returns, last begins."""
    found: set[int] = set()
    for at in pair:
        value = columns.value[rows[at - 1]] if at else start
        block = [rows[at - 1]] if at else []
        block += [
            row
            for row, (f, seen, e) in enumerate(
                zip(columns.f, columns.seen, columns.end, strict=True)
            )
            if f == "read" and seen == value and e != inf
        ]
        found.update(block[:1] if at else [])
        found.add(min(block, key=columns.end.__getitem__))
        found.add(max(block, key=columns.begin.__getitem__))
    return tuple(sorted(found))
