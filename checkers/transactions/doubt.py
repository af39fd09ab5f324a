"""Tells which transactions may lie on a cycle, before there is any graph: of most histories, none.

Each transaction has a place among the events: its completion, or its invocation where nobody knows
how it ended. The orders of time and of processes lead forward from place to place. So a cycle must
step back by a dependency (ww, wr, rw), from a later place to an earlier one. A step back covers a
stretch of places; stretches that overlap are joined. Between two of these nothing leads back, so
each cycle lies within one of them, whatever the places are: good ones only make stretches few.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf

from checkers.limits.budget import Budget, watched
from checkers.transactions.orders import NOBODY, KeyHistory, Orders
from checkers.transactions.txns import NEVER, Transactions

KEYS_EVERY = 64  # keys between two looks at the budget: one may hold very much
Stretch = tuple[float, float]  # places, the first and the last


def doubtful(txns: Transactions, orders: Orders, budget: Budget | None = None) -> bytearray:
    """Mark the transactions that may lie on a cycle; empty where none does. O(n log n).

    Raises:
        BudgetError: The budget has run out.
    """
    ends = zip(txns.begins, txns.ends, strict=True)
    places = [begin if end == NEVER else end for begin, end in ends]
    if NEVER in places:  # of some nobody knows any place
        return bytearray(b"\1") * len(places)
    back: list[Stretch] = []
    for of_key in watched(orders.keys.values(), budget, KEYS_EVERY):
        if of_key.sound:
            _step_back(of_key, places, back)
    if not back:
        return bytearray()
    covered = bytearray(max(places) + 1)
    for first, last in _joined(back):
        covered[first : last + 1] = b"\1" * (last + 1 - first)
    return bytearray(map(covered.__getitem__, places))


def _joined(stretches: list[Stretch]) -> Iterator[tuple[int, int]]:
    """Join stretches that overlap."""
    stretches.sort()
    first, last = stretches[0]
    for begin, end in stretches:
        if begin > last:
            yield int(first), int(last)
            first = begin
        last = max(last, end)
    yield int(first), int(last)


def _step_back(of_key: KeyHistory, places: list[int], back: list[Stretch]) -> None:
    """Add the steps back by the dependencies that a key brings, which are those of ``graph_of``."""
    writers, reads = of_key.writers, of_key.compatible
    order: list[float] = [places[writer] for writer in writers if writer != NOBODY]
    before = after = order
    if NOBODY in writers:
        before, after = _carried(writers, places, -inf), _carried(writers[::-1], places, inf)[::-1]
    if order != sorted(order):
        back += [(other, one) for one, other in pairwise(order) if one > other]
    over = len(after)
    while over and after[over - 1] == inf:
        over -= 1
    for txn, length in reads:
        place = places[txn]
        if length and before[length - 1] > place:
            back.append((place, before[length - 1]))
        if length < over and place > after[length]:
            back.append((after[length], place))
    if of_key.unseen:
        first = min(places[txn] for txn in of_key.unseen)
        latest = max((places[txn] for txn, length in reads if length >= over), default=-1)
        last = max([latest, *before[-1:]])
        if last > first:
            back.append((first, last))


def _carried(writers: list[int], places: list[int], none: float) -> list[float]:
    """The place of each writer; that of the last somebody for one who is nobody."""
    carried: list[float] = []
    last = none
    for writer in writers:
        last = last if writer == NOBODY else places[writer]
        carried.append(last)
    return carried
