"""A minimal core of an anomaly of partitions: a few whole ops that have it alone.

Alone means: nothing else happened. To leave an op out is to ask less of the history: what it polled
is gone, and what it sent was sent by somebody, at any time or never, each record on its own and at
an offset that nobody told; what was refused stays refused. An op that assigns partitions stays in
force for its process, though it is not named. A core has its anomaly in both ways, alone and with
all others set free like that; and without any one of its ops it has it no more.

That nobody polled a record is a fact about all polls, so a lost or unseen record is one that no op
of the whole history polled: its core names who sent it, and who polled what lies behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from checkers.cores.deletion import least
from checkers.partitions.broken import Broken
from checkers.partitions.ops import ASSIGN_FS, LogOp
from checkers.partitions.orders import Partitions
from checkers.transactions.txns import Transactions

OPS_MAX: Final = 500  # of an anomaly of which a core is looked for
WORK_MAX: Final = 400_000  # records judged, for all anomalies of a history
_IDENTITY: Final = ("offset", "value")  # of an anomaly, as far as its details have them

Judge = Callable[[Sequence[LogOp], Transactions], Sequence[Broken]]


class LogCores:
    """Finds the cores of the anomalies of one history; the same ones each time."""

    def __init__(
        self, ops: Sequence[LogOp], txns: Transactions, partitions: Partitions, judge: Judge
    ) -> None:
        self._ops = ops
        self._txns = txns
        self._partitions = partitions
        self._judge = judge
        self._places = {op: place for place, op in enumerate(ops)}
        self._assigns: dict[int | str, list[int]] = {}
        subscribed: int | None = None
        for place, op in enumerate(ops):
            begin = op.interval.invocation
            if begin.f in ASSIGN_FS:
                self._assigns.setdefault(begin.process, []).append(place)
            if begin.f == "subscribe" and subscribed is None:
                subscribed = place
        self._subscribed = () if subscribed is None else (subscribed,)
        self._left = WORK_MAX

    def of(self, broken: Broken) -> Broken:
        """The anomaly of its core; ``minimal`` in its details: nothing can be left out of that.

        Raises:
            BudgetError: The budget of the check has run out.
        """
        named = frozenset(self._places[op] for op in broken.ops)
        told, minimal = broken, False
        for candidates in self._candidates(named) if len(named) <= OPS_MAX else ():
            if self._fails(broken, candidates):
                kept, minimal = least(
                    candidates,
                    lambda some: self._fails(broken, some),
                    lambda: self._left > 0,
                    monotone=False,
                )
                told = broken if kept == named else self._told(broken, kept)
                break
        return replace(told, details={**told.details, "minimal": minimal})

    def _candidates(self, named: frozenset[int]) -> Iterator[frozenset[int]]:
        """The ops, ever more of those beside them that may show what they did."""
        yield named
        beside: set[int] = set()
        for place in named:
            op = self._ops[place]
            records = [(key, each) for key, sent in op.sends.items() for each in sent]
            for key, record in (*records, *op.polled()):
                order = self._partitions.orders.get(key)
                reader = self._partitions.readers.get(key, {}).get(record[1])
                tellers = [] if order is None else order.tellers(record)
                beside |= {self._places[each] for each in tellers}
                if reader is not None and op.outcome == "info":
                    beside.add(self._places[reader])
        yield named | beside

    def _fails(self, broken: Broken, kept: Set[int]) -> bool | None:
        """Tell whether the anomaly is there; None when too much work was done to find out."""
        some = sorted(kept)
        self._left -= sum(1 + _records(self._ops[place]) for place in some)
        if self._left <= 0:
            return None
        if not self._same(broken, some):
            return False
        assigned = self._assigned(some)
        return assigned == some or bool(self._same(broken, assigned))

    def _told(self, broken: Broken, kept: Set[int]) -> Broken:
        """The anomaly as it is told when nothing but these happened."""
        some = sorted(kept)
        best = self._same(broken, some)[0]
        ops = dict.fromkeys((*best.ops, *(self._ops[place] for place in some)))
        return replace(best, ops=tuple(ops))

    def _same(self, broken: Broken, some: Sequence[int]) -> list[Broken]:
        """The same anomaly, as often as it is there."""
        want = [broken.details.get(name) for name in _IDENTITY]
        ops = [self._ops[place] for place in some]
        return [
            each
            for each in self._judge(ops, self._txns.part(some))
            if (each.name, each.key) == (broken.name, broken.key)
            and [each.details.get(name) for name in _IDENTITY] == want
        ]

    def _assigned(self, some: Sequence[int]) -> list[int]:
        """These, and what their processes had assigned."""
        kept = set(some).union(self._subscribed)
        for place in some:
            kept.update(self._assigns.get(self._ops[place].interval.invocation.process, ()))
        return sorted(kept)


def _records(op: LogOp) -> int:
    return sum(map(len, op.sends.values())) + sum(1 for _ in op.polled())
