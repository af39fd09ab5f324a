"""The forced order: where answers tell in which order everything was appended.

Strings and lists to which every append (or put) adds something of its own, none the beginning of
another: what a get shows is then read in one way only, and says which ops came before it and in
which order. The ops between two puts are a *block* whose order is known; it is held against time
from its beginning to its end, and blocks against each other as zones are. An append that nobody
saw belongs at the end of a block, so it fits unless it lasted only while one block must have been
going on. Unseen ops of unknown outcome are left out. O(n log n), beside the lengths of what was
seen.

Where something was added twice, the last that had begun is taken to be meant; an order that then
explains everything is as good as any, and where none does the method gives no answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from checkers.linearizability.columns import Columns
from checkers.linearizability.zones import VALID, Zones, overlap

_LENGTHS_MAX = 8  # of different lengths of what is appended


@dataclass(slots=True)
class _Block:
    """The string built up between two puts, as far as gets have shown it."""

    text: Any  # a string or a tuple
    rows: list[int]  # what built it, in order; -1 stands for the initial state
    at: dict[int, int]  # the place in ``rows`` that ends at a length
    first: list[float]  # by place: return of the first get that saw just so much
    last: list[float]  # begin of the last one


def by_forced_order(columns: Columns, start: Hashable) -> Zones | None:
    """Judge a string (get, put, append) or a list (read, append); None where it does not apply."""
    if start not in ("", ()):
        return None
    single = start == ()
    f = columns.f
    makers: dict[Any, list[int]] = {}
    twice = False
    for row, (kind, value) in enumerate(zip(f, columns.value, strict=True)):
        if kind in ("append", "put"):
            part: Any = (value,) if single else value
            if not part:
                return None
            if part in makers:
                twice = True
                makers[part].append(row)
            else:
                makers[part] = [row]
        elif kind not in ("get", "read"):
            return None
    lengths = sorted({len(part) for part in makers})
    if len(lengths) > _LENGTHS_MAX:
        return None
    for short in lengths[:-1]:
        if any(len(part) > short and part[:short] in makers for part in makers):
            return None
    zones = _Texts(columns, start, makers, lengths).judge()
    return None if twice and not zones.linearizable else zones


class _Texts:
    """The answers of all gets of one object."""

    def __init__(
        self, columns: Columns, start: Any, makers: dict[Any, list[int]], lengths: Sequence[int]
    ) -> None:
        self._columns = columns
        self._makers = makers
        self._lengths = lengths
        self._start = start
        self._blocks = {-1: _Block(start, [-1], {0: 0}, [inf], [-inf])}
        self._placed: set[int] = set()

    def judge(self) -> Zones:
        """Hold what gets saw against time."""
        columns = self._columns
        begin, end = columns.begin, columns.end
        for row, kind in enumerate(columns.f):
            if kind in ("get", "read") and end[row] != inf:
                found = self._read(columns.seen[row], end[row])
                if found is None:
                    return Zones(linearizable=False, conflict=(row,))
                block, place = found
                block.first[place] = min(block.first[place], end[row])
                block.last[place] = max(block.last[place], begin[row])
        first, last = [], []
        for block in self._blocks.values():
            zone = self._zone(block)
            if zone is None:
                return Zones(linearizable=False, conflict=tuple(r for r in block.rows if r >= 0))
            first.append(zone[0])
            last.append(zone[1])
        return VALID if self._unseen(first, last) else Zones(linearizable=False)

    def _unseen(self, first: list[float], last: list[float]) -> bool:
        """Tell whether blocks, and the appends and puts that nobody saw, have their places."""
        columns = self._columns
        begin, end = columns.begin, columns.end
        unseen = []
        for row, kind in enumerate(columns.f):
            if row in self._placed or row in self._blocks or end[row] == inf:
                continue
            if kind == "put":
                first.append(end[row])
                last.append(begin[row])
            elif kind == "append":
                unseen.append(row)
        if overlap(first, last) is not None:
            return False
        zones = [(a, z) for a, z in zip(first, last, strict=True) if a < z]
        return not any(a < begin[row] and end[row] < z for row in unseen for a, z in zones)

    def _read(self, seen: Any, by: float) -> tuple[_Block, int] | None:
        """The block that a get saw and how much of it; None where nothing can have shown that."""
        n = len(seen)
        block = self._blocks[-1]
        if n:
            row = self._part(seen, 0, by)
            if row is None:
                return None
            if self._columns.f[row] == "put":
                known = self._blocks.get(row)
                if known is None:
                    text = seen[: len(self._columns.value[row])]  # type: ignore[arg-type]
                    known = _Block(text, [row], {len(text): 0}, [inf], [-inf])
                    self._blocks[row] = known
                block = known
        at = len(block.text)
        if n <= at:
            place = block.at.get(n)
            return None if place is None or block.text[:n] != seen else (block, place)
        if seen[:at] != block.text:
            return None
        while at < n:
            row = self._part(seen, at, by)
            if row is None or row in self._placed or self._columns.f[row] == "put":
                return None
            self._placed.add(row)
            value: Any = self._columns.value[row]
            at += 1 if self._start == () else len(value)
            block.at[at] = len(block.rows)
            block.rows.append(row)
            block.first.append(inf)
            block.last.append(-inf)
        block.text = seen
        return block, len(block.rows) - 1

    def _part(self, seen: Any, at: int, by: float) -> int | None:
        """The op that added what stands at a place, and had begun by then."""
        for length in self._lengths:
            rows = self._makers.get(seen[at : at + length])
            if rows is not None:
                if len(rows) == 1:
                    return rows[0]
                begin = self._columns.begin
                return next((r for r in reversed(rows) if begin[r] <= by), rows[0])
        return None

    def _zone(self, block: _Block) -> tuple[float, float] | None:
        """First return and last begin of a block; None where its order goes against time."""
        begin, end = self._columns.begin, self._columns.end
        first, last = inf, -inf
        for row, returned, begun in zip(block.rows, block.first, block.last, strict=True):
            if row < 0:
                first = -inf
            else:
                e = end[row]
                if e < last or returned < begin[row]:
                    return None
                first = min(first, e)
                last = max(last, begin[row])
            if returned < last:
                return None
            first = min(first, returned)
            last = max(last, begun)
        return first, last


def by_positions(columns: Columns, start: Hashable) -> Zones | None:
    """Judge a log whose appends came back with their positions, and reads of its beginning.

    None where an append of unknown outcome must have taken a position. O(n log n).
    """
    placed: dict[int, int] = {}
    reads: list[tuple[int, bool, int]] = []
    lost = False
    for row, (f, seen, end) in enumerate(zip(columns.f, columns.seen, columns.end, strict=True)):
        if end == inf:
            lost = lost or f == "append"
        elif f == "append" and isinstance(seen, int):
            if seen in placed:
                return Zones(linearizable=False, conflict=(placed[seen], row))
            placed[seen] = row
        elif f == "read" and isinstance(seen, tuple):
            reads.append((len(seen), True, row))
        else:
            return None
    gaps = [at for at in range(len(placed)) if at not in placed]
    if start != () or (lost and (gaps or any(n > len(placed) for n, _, _ in reads))):
        return None
    if gaps:
        return Zones(linearizable=False, conflict=tuple(sorted(placed.values())))
    order = sorted([*reads, *((at + 1, False, row) for at, row in placed.items())])
    return _in_time(columns, [row for _, _, row in order], len(placed))


def _in_time(columns: Columns, order: Sequence[int], length: int) -> Zones:
    """Tell whether calls in this order agree with time, and reads with the appends before them."""
    rows = [row for row in order if columns.f[row] == "append"]
    values = tuple(columns.value[row] for row in rows)
    last, latest = -inf, -1
    for row in order:
        if columns.end[row] < last:
            return Zones(linearizable=False, conflict=(latest, row))
        seen = columns.seen[row]
        if isinstance(seen, tuple) and (len(seen) > length or values[: len(seen)] != seen):
            return Zones(linearizable=False, conflict=(row,))
        if columns.begin[row] > last:
            last, latest = columns.begin[row], row
    return VALID
