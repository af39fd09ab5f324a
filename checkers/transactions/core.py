"""A minimal core of an anomaly: a few whole transactions that have it alone.

Alone means: nothing else happened. To leave a transaction out is to ask less of the history: what
it read is gone, and what it appended was appended by somebody, at any time or never, each element
on its own; what was refused stays refused. A core has its anomaly in both ways, alone and with all
others set free like that, so nothing that the others did explains it; and without any one of its
transactions it has it no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from checkers.cores.deletion import least
from checkers.transactions.orders import NOBODY, Found, Orders
from checkers.transactions.txns import INFO, Append, Transactions

TXNS_MAX: Final = 500  # of an anomaly of which a core is looked for
WORK_MAX: Final = 400_000  # elements and micro-ops judged, for all anomalies of a history
LOOKED_AT_MAX: Final = 20_000  # elements, for a read that shows an append of unknown outcome

Judge = Callable[[Transactions], Sequence[Found]]


class Cores:
    """Finds the cores of the anomalies of one history; the same ones each time."""

    def __init__(self, txns: Transactions, orders: Orders, judge: Judge) -> None:
        self._txns = txns
        self._orders = orders
        self._judge = judge
        self._work = WORK_MAX

    def of(self, found: Found) -> Found:
        """The anomaly of its core; ``minimal`` in its details: nothing can be left out of that.

        Raises:
            BudgetError: The budget of the check has run out.
        """
        named = frozenset(found.txns)
        if len(named) <= TXNS_MAX and self._work > 0:
            for candidates in self._candidates(named):
                for name in _names(found.name):
                    core = self._core(replace(found, name=name), candidates)
                    if core is not None:
                        whole = core.name == found.name and set(core.txns) == named
                        told = found if whole else core
                        minimal = core.details["minimal"]
                        return replace(told, details={**told.details, "minimal": minimal})
        return replace(found, details={**found.details, "minimal": False})

    def _core(self, found: Found, candidates: frozenset[int]) -> Found | None:
        """The anomaly of a few of the candidates; None where they do not have it."""
        tries = _Tries(found, self._txns, self._orders, self._judge, self._work)
        core: Found | None = None
        if tries.fails(candidates):
            kept, minimal = least(candidates, tries.fails, tries.go_on, monotone=False)
            core = tries.told(kept)
            core = replace(core, details={**core.details, "minimal": minimal})
        self._work = tries.left
        return core

    def _candidates(self, named: frozenset[int]) -> Iterator[frozenset[int]]:
        """The transactions, ever more of those beside them that may show what they did."""
        yield named
        keys = dict.fromkeys(mop.key for txn in sorted(named) for mop in self._txns.mops[txn])
        longest = {self._orders.keys[key].longest for key in keys} - {NOBODY}
        yield named | longest
        shown = named | longest | frozenset(self._shown(named))
        yield shown
        # where several appends in a row have become one step, the circle has another name
        yield shown | frozenset(self._writers(shown))

    def _shown(self, named: Set[int]) -> Iterator[int]:
        """A read for each append of unknown outcome, which shows that it took effect."""
        looked_at = 0
        for txn in sorted(named):
            if self._txns.outcomes[txn] != INFO:
                continue
            for mop in self._txns.mops[txn]:
                for reader, seen, _ in self._orders.keys[mop.key].reads if mop.append else ():
                    looked_at += len(seen)
                    if looked_at > LOOKED_AT_MAX:
                        return
                    if mop.element in seen:
                        yield reader
                        break

    def _writers(self, readers: Set[int]) -> Iterator[int]:
        """The transactions that appended what these read."""
        for txn in sorted(readers):
            for mop in self._txns.mops[txn]:
                appends = self._orders.keys[mop.key].appends
                yield from (appends[element] for element in mop.seen or () if element in appends)


def _names(name: str) -> Iterator[str]:
    """The name, and then those of the same circle without an order of processes or of time.

    Of two circles of one length only one is found, and among few it may be the other one.
    """
    yield name
    base, _, order = name.rpartition("-")
    if order == "realtime":
        yield f"{base}-process"
    if order in ("realtime", "process"):
        yield base


class _Tries:
    """Judges some of the transactions, with all others left out."""

    def __init__(
        self, found: Found, txns: Transactions, orders: Orders, judge: Judge, work: int
    ) -> None:
        self._found = found
        self._txns = txns
        self._orders = orders
        self._judge = judge
        self.left = work

    def go_on(self) -> bool:
        """Tell whether there is work left to be spent."""
        return self.left > 0

    def fails(self, kept: Set[int]) -> bool | None:
        """Tell whether the anomaly is there; None when too much work was done to find out."""
        some = sorted(kept)
        others = self._doubled(some)
        mops = [mop for txn in some for mop in self._txns.mops[txn]]
        self.left -= sum(1 + len(mop.seen or ()) for mop in mops)
        if self.left <= 0:
            return None
        return bool(self._same(some, [])) and (not others or bool(self._same(some, others)))

    def told(self, kept: Set[int]) -> Found:
        """The anomaly as it is told when nothing but these happened."""
        some = sorted(kept)
        others = self._doubled(some)
        told = self._same(some, others)[0]
        named = (some[txn - len(others)] for txn in told.txns)
        return replace(told, txns=tuple(dict.fromkeys((*named, *some))))

    def _same(self, some: Sequence[int], others: Sequence[Append]) -> list[Found]:
        """The same anomaly, as often as it is there."""
        mine = self._found
        return [
            each
            for each in self._judge(self._txns.part(some, others))
            if each.name == mine.name
            and all(each.details.get(name) == mine.details.get(name) for name in ("key", "element"))
        ]

    def _doubled(self, some: Sequence[int]) -> list[Append]:
        """Give an element that came twice, of each list whose order cannot be told for that."""
        keys = dict.fromkeys(mop.key for txn in some for mop in self._txns.mops[txn])
        again = ((key, self._orders.keys[key].again) for key in keys)
        return [(key, min(twice, key=repr)) for key, twice in again if twice for _ in range(2)]
