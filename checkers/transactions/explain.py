"""Says in words why one transaction came before another."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from checkers.transactions.graph import KINDS, PROCESS, REALTIME, RW, WR, WW
from checkers.transactions.orders import NOBODY, SHOWN_MAX, KeyHistory, Orders
from checkers.transactions.search import Cycle
from checkers.transactions.txns import Transactions

REASONS_MAX = 20  # of a cycle in its sentence
STEPS_MAX = 1_000  # of a cycle in its details


class Explainer:
    """Explains the cycles of one history."""

    def __init__(self, txns: Transactions, orders: Orders) -> None:
        self._txns = txns
        self._orders = orders
        self._places: dict[Hashable, dict[Hashable, int]] = {}
        self._lengths: dict[Hashable, dict[int, list[int]]] = {}

    def sentence(self, cycle: Cycle) -> str:
        """The reasons of a cycle in one sentence; of a long one the first and how many more."""
        steps = cycle.steps[:REASONS_MAX]
        told = "; ".join(f"{self.reason(*step)} ({KINDS[step[1]]})" for step in steps)
        more = len(cycle.steps) - len(steps)
        return f"no order explains this: {told}" + (f"; and {more} more steps" if more else "")

    def steps(self, cycle: Cycle) -> list[dict[str, Any]]:
        """Give the cycle's steps as JSON, up to ``STEPS_MAX``; from and to are numbers of ops."""
        return [
            {
                "from": self.op(source),
                "kind": KINDS[kind],
                "to": self.op(target),
                "why": self.reason(source, kind, target),
            }
            for source, kind, target in cycle.steps[:STEPS_MAX]
        ]

    def op(self, txn: int) -> int:
        """The number by which a transaction is called: of its completion, if it has one."""
        return self._txns.indices(txn)[-1]

    def reason(self, source: int, kind: int, target: int) -> str:
        """Tell why ``source`` came before ``target``, by an edge of that kind."""
        one, other = f"op {self.op(source)}", f"op {self.op(target)}"
        match kind:
            case int() if kind == WW:
                key, before, after = self._ww(source, target)
                return f"{one} appended {before!r} to {key!r}, and {other} {after!r} behind it"
            case int() if kind == WR:
                key, element = self._wr(source, target)
                return f"{one} appended {element!r} to {key!r}, which {other} read"
            case int() if kind == RW:
                key, seen, element = self._rw(source, target)
                return f"{one} read {seen} of {key!r}, without {element!r}, which {other} appended"
            case int() if kind == PROCESS:
                process = self._txns.processes[source]
                return f"process {process} did {one} before {other}"
            case int() if kind == REALTIME:
                return f"{one} ended before {other} began"
            case _:
                raise AssertionError(f"no reason is of kind {kind}")

    def _ww(self, source: int, target: int) -> tuple[Hashable, Hashable, Hashable]:
        """(key, element of the one, element of the other behind it)."""
        for key, of_key, element in self._appends(source):
            place = self._place(key, of_key).get(element)
            if place is None:
                continue
            behind = _writer_after(of_key, place + 1)
            if behind is None:
                found = self._behind(key, of_key, target)
                if found is not None:
                    return key, element, found
            elif of_key.writers[behind] == target:
                return key, element, of_key.order[behind]
        raise AssertionError(f"no ww edge from {source} to {target}")

    def _wr(self, source: int, target: int) -> tuple[Hashable, Hashable]:
        for key, of_key, length in self._reads(target):
            for place in range(length - 1, -1, -1):
                if of_key.writers[place] == NOBODY:
                    continue
                if of_key.writers[place] == source:
                    return key, of_key.order[place]
                break
        raise AssertionError(f"no wr edge from {source} to {target}")

    def _rw(self, source: int, target: int) -> tuple[Hashable, str, Hashable]:
        for key, of_key, length in self._reads(source):
            seen = _show(of_key.order[:length])
            behind = _writer_after(of_key, length)
            if behind is not None and of_key.writers[behind] == target:
                return key, seen, of_key.order[behind]
            found = self._behind(key, of_key, target) if behind is None else None
            if found is not None:
                return key, seen, found
        raise AssertionError(f"no rw edge from {source} to {target}")

    def _appends(self, txn: int) -> Iterator[tuple[Hashable, KeyHistory, Hashable]]:
        for mop in self._txns.mops[txn]:
            of_key = self._orders.keys[mop.key]
            if mop.append and of_key.sound:
                yield mop.key, of_key, mop.element

    def _reads(self, txn: int) -> Iterator[tuple[Hashable, KeyHistory, int]]:
        for key in dict.fromkeys(mop.key for mop in self._txns.mops[txn]):
            of_key = self._orders.keys[key]
            if of_key.sound:
                if key not in self._lengths:
                    lengths = self._lengths[key] = {}
                    for reader, length in of_key.compatible:
                        lengths.setdefault(reader, []).append(length)
                for length in self._lengths[key].get(txn, ()):
                    yield key, of_key, length

    def _behind(self, key: Hashable, of_key: KeyHistory, txn: int) -> Hashable | None:
        """Tell what a transaction appended that no read shows."""
        known = self._place(key, of_key)
        mine = (each.element for each in self._txns.mops[txn] if each.append and each.key == key)
        return next((element for element in mine if element not in known), None)

    def _place(self, key: Hashable, of_key: KeyHistory) -> dict[Hashable, int]:
        if key not in self._places:
            self._places[key] = {element: at for at, element in enumerate(of_key.order)}
        return self._places[key]


def _writer_after(of_key: KeyHistory, place: int) -> int | None:
    """The next place whose element somebody appended."""
    places = range(place, len(of_key.writers))
    return next((at for at in places if of_key.writers[at] != NOBODY), None)


def _show(seen: list[Any]) -> str:
    return str(seen) if len(seen) <= SHOWN_MAX else f"[..., {str(seen[-SHOWN_MAX:])[1:]}"
