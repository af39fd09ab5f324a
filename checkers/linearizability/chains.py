"""Zones where there is compare-and-set, and every value is written once.

A cas of a to b that took effect has its place right after the last read of a and right before the
first of b: a *chain* is a write, and every cas that follows from it, with their reads; it is one
block of the order, and its own order is known. Two of them from one value cannot be. One of
unknown outcome took effect exactly when its value was seen. Blocks are judged as zones.

A cas of a that compared false (``not``) says that the value was another one then. Where a is what
the register must have held all the time that it lasted, nothing explains it; where the order of
blocks that stands first explains it, all is well; between the two the method gives no answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import inf

from checkers.linearizability.columns import Columns
from checkers.linearizability.zones import VALID, Zones, overlap


@dataclass(slots=True)
class _Held:
    """A value and when the register held it."""

    row: int | None  # of the write or cas that made it; None: the initial value
    first: float = inf  # return of a read
    last: float = -inf  # begin of a read
    reads: list[int] = field(default_factory=list)
    left_by: int | None = None  # row of the cas from it
    chain: int | None = None
    made_by: float = inf  # it was made at the latest then
    lasts_to: float = -inf  # it was left at the earliest then
    offset: float = -inf  # within its chain's order it can be made then at the earliest


class _ConflictError(Exception):
    def __init__(self, *rows: int) -> None:
        super().__init__()
        self.rows = tuple(sorted(set(rows)))


def by_chains(columns: Columns, start: Hashable) -> Zones | None:
    """Judge a register with compare-and-set; None where the method has no answer. O(n log n)."""
    held = _producers(columns, start)
    if held is None:
        return None
    try:
        chains = _Chains(columns, held, start)
        chains.judge()
        explained = chains.explains_all()
    except _ConflictError as conflict:
        return Zones(linearizable=False, conflict=conflict.rows)
    return VALID if explained else None


def _producers(columns: Columns, start: Hashable) -> dict[Hashable, _Held] | None:
    """Tell what made each value; None when two ops may have."""
    held: dict[Hashable, _Held] = {start: _Held(None)}
    for row, (f, value) in enumerate(zip(columns.f, columns.value, strict=True)):
        if f in ("write", "cas"):
            if value in held:
                return None
            held[value] = _Held(row)
    return held


class _Chains:
    """The chains of one register."""

    def __init__(self, columns: Columns, held: dict[Hashable, _Held], start: Hashable) -> None:
        self._columns = columns
        self._held = held
        self._start = start
        self._chains: list[list[_Held]] = []
        self._first: list[float] = []
        self._last: list[float] = []
        self._nots: list[int] = []

    def judge(self) -> None:
        """Raise _ConflictError where no order explains writes, reads and cas."""
        needed = self._observe()
        heads: list[Hashable] = [self._start]
        for row in needed:
            f, value, old = (c[row] for c in self._rows())
            if f == "write":
                heads.append(value)
                continue
            before = self._held.get(old)
            if before is None:
                raise _ConflictError(row)  # from a value that nobody wrote
            if before.left_by is not None:
                raise _ConflictError(*self._evidence(before), *self._evidence_of(row, value))
            before.left_by = row
        for head in heads:
            self._chain(self._held[head])
        for row in needed:
            if self._held[self._columns.value[row]].chain is None:
                raise _ConflictError(*needed)  # each cas waits for another one
        pair = overlap(self._first, self._last)
        if pair is not None:
            raise _ConflictError(*self._all(pair[0]), *self._all(pair[1]))

    def _rows(self) -> tuple[Sequence[str], Sequence[Hashable], Sequence[Hashable]]:
        return self._columns.f, self._columns.value, self._columns.seen

    def _observe(self) -> list[int]:
        """Count reads; the rows of all writes and cas that surely took effect."""
        columns, held = self._columns, self._held
        needed: list[int] = []
        wanted: list[Hashable] = []
        rows = zip(*self._rows(), columns.begin, columns.end, strict=True)
        for row, (f, _, seen, begin, end) in enumerate(rows):
            if f == "not":
                self._nots.append(row)
            elif f == "read" and end != inf:
                value = held.get(seen)
                if value is None:
                    raise _ConflictError(row)
                value.reads.append(row)
                value.first = min(value.first, end)
                value.last = max(value.last, begin)
                wanted.append(seen)
            elif f != "read" and end != inf:
                needed.append(row)
                if f == "cas":
                    wanted.append(seen)
        taken = set(needed)
        while wanted:
            maker = held.get(wanted.pop())
            if maker is None or maker.row is None or maker.row in taken:
                continue
            taken.add(maker.row)
            needed.append(maker.row)
            if columns.f[maker.row] == "cas":
                wanted.append(columns.seen[maker.row])
        return needed

    def _chain(self, value: _Held) -> None:
        """Follow the cas from a value, and hold the order that they force against time."""
        columns, chain = self._columns, list[_Held]()
        begun, at = -inf, len(self._chains)
        while True:
            value.chain = at
            chain.append(value)
            if value.row is not None:
                if columns.end[value.row] < begun:
                    raise _ConflictError(*(r for v in chain for r in self._evidence(v)))
                begun = max(begun, columns.begin[value.row])
            value.offset = begun
            if value.first < begun:
                raise _ConflictError(*(r for v in chain for r in self._evidence(v)))
            begun = max(begun, value.last)
            if value.left_by is None:
                break
            value.lasts_to = max(begun, columns.begin[value.left_by])
            value = self._held[columns.value[value.left_by]]
        value.lasts_to = begun
        first = inf
        for value in reversed(chain):
            first = min(first, value.first, -inf if value.row is None else columns.end[value.row])
            value.made_by = first
        self._chains.append(chain)
        self._first.append(first)
        self._last.append(begun)

    def explains_all(self) -> bool:
        """Tell whether one order of the chains explains every failed cas as well.

        Raises:
            _ConflictError: One that no order explains.
        """
        columns, held = self._columns, self._held
        nots = [row for row in self._nots if columns.seen[row] in held]
        nots = [row for row in nots if held[columns.seen[row]].chain is not None]
        for row in nots:
            value = held[columns.seen[row]]
            if value.made_by < columns.begin[row] and columns.end[row] < value.lasts_to:
                assert value.chain is not None  # noqa: S101
                raise _ConflictError(row, *self._all(value.chain))
        if not nots:
            return True
        spans = self._spans()
        return all(
            columns.begin[row] <= since or columns.end[row] >= until
            for row in nots
            for since, until in [spans[id(held[columns.seen[row]])]]
        )

    def _spans(self) -> dict[int, tuple[float, float]]:
        """Work out from when to when each value is held, in the order by first returns."""
        zones = sorted((f, s) for f, s in zip(self._first, self._last, strict=True) if f < s)
        starts: list[tuple[float, bool, int]] = []
        for at, (f, s) in enumerate(zip(self._first, self._last, strict=True)):
            starts.append((f, True, at) if f < s else (_free(zones, s), False, at))
        starts.sort()
        values = [
            (max(begun, value.offset), value)
            for begun, _, at in starts
            for value in self._chains[at]
        ]
        ends = [since for since, _ in values[1:]]
        return {
            id(value): (since, until)
            for (since, value), until in zip(values, [*ends, inf], strict=True)
        }

    def _all(self, chain: int) -> list[int]:
        """The rows that a chain's place hangs on."""
        return [row for value in self._chains[chain] for row in self._evidence(value)]

    def _evidence(self, value: _Held) -> list[int]:
        rows = [] if value.row is None else [value.row]
        if value.left_by is not None:
            rows.append(value.left_by)
        if value.reads:
            rows.append(min(value.reads, key=self._columns.end.__getitem__))
            rows.append(max(value.reads, key=self._columns.begin.__getitem__))
        return rows

    def _evidence_of(self, row: int, value: Hashable) -> list[int]:
        return [row, *self._evidence(self._held[value])]


def _free(zones: Sequence[tuple[float, float]], moment: float) -> float:
    """The first moment from this one on that lies within no forward zone."""
    low, high = 0, len(zones)
    while low < high:
        middle = (low + high) // 2
        if zones[middle][0] < moment:
            low = middle + 1
        else:
            high = middle
    return max(moment, zones[low - 1][1]) if low else moment
