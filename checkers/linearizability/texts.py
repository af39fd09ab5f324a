"""One order for a string of puts and appends, guessed from what gets saw and then proved.

Where ops of a string overlap with no others there is nothing to guess: it must have been as each
says. From where they overlap on, the longest strings that gets saw say in which order most things
were put and appended; what nobody saw goes as late as it may. The order is then held against time
from its beginning to its end, and passing is a proof that the history is linearizable. Otherwise
``linearizable_forced`` and the search have to say.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any

from checkers.linearizability.columns import Columns

_LENGTHS_MAX = 8  # of different lengths of what is appended
BLOCKS_FEW = 8  # that are tried one by one
# What was built up between two puts: the length of its beginning, the longest string that was seen
# of it, and by length the row that made it so long and those of the gets that saw just so much.
_Block = tuple[int, str, dict[int, list[int]]]


def by_witness(columns: Columns, rows: Sequence[int], start: Hashable) -> bool | None:
    """Judge the rows of one string, in the order of their begin; None: another method must.

    False only where an op that overlaps with no other is wrong. O(n log n), beside the lengths of
    what was seen.
    """
    f, value, seen = columns.f, columns.value, columns.seen
    begin, end = columns.begin, columns.end
    state: Any = start
    replaced, last = state, -inf
    wrong = False
    for at, row in enumerate(rows):
        if begin[row] <= last:
            before = rows[at - 1]
            if f[before] == "append":  # a second name for a long string would have it copied
                state = state[: len(state) - len(value[before])]  # type: ignore[arg-type]
            elif f[before] == "put":
                state = replaced
            return _guess(columns, rows[at - 1 :], state)
        if wrong:
            return False
        last = end[row]
        kind = f[row]
        if kind == "get":
            wrong = seen[row] != state and last != inf
        elif kind == "append":
            state += value[row]
        else:
            replaced, state = state, value[row]
    return not wrong


def _guess(columns: Columns, rows: Sequence[int], start: str) -> bool | None:
    """True where a guess passes; nothing was in flight when the first of ``rows`` began."""
    f, value, seen, end = columns.f, columns.value, columns.seen, columns.end
    parts = _Parts(f)
    gets: list[int] = []
    for row in rows:
        if f[row] != "get":
            parts.add(value[row], row)
        elif end[row] != inf:
            gets.append(row)
    lengths = sorted({len(part) for part in parts.rows})
    if len(lengths) > _LENGTHS_MAX or 0 in lengths:
        return None
    gets.sort(key=lambda row: len(seen[row]), reverse=True)  # type: ignore[arg-type]
    blocks: list[_Block] = []
    heads: dict[str | None, _Block] = {}  # by what was put; None: what was there before
    begun = False
    for row in gets:
        text: Any = seen[row]
        n = len(text)
        likely = blocks if len(blocks) <= BLOCKS_FEW else _likely(text, heads, lengths)
        for low, longest, placed in likely:  # noqa: B007 - read below
            if low <= n and longest.startswith(text):
                break
        else:
            first = not begun and text.startswith(start)
            read = parts.read(text, len(start) if first else 0, lengths)
            if read is None:
                return None
            if read and f[read[0][1]] == "put":
                low = read[0][0]
                head: str | None = text[:low]
                placed = {}
            elif first:
                begun = True
                low = len(start)
                head, placed = None, {low: []}
            else:
                return None
            for length, maker in read:
                placed[length] = [maker]
            heads[head] = (low, text, placed)
            blocks.append(heads[head])
        if n not in placed:
            return None
        placed[n].append(row)
    return _passes(columns, blocks, parts.left()) or None


def _likely(text: str, heads: Mapping[str | None, _Block], lengths: Sequence[int]) -> list[_Block]:
    """The blocks that a string may be of, as it begins."""
    begins = (None, *(text[:length] for length in lengths))
    return [heads[head] for head in begins if head in heads]


class _Parts:
    """The puts and appends that no get has been found to show, by what they add."""

    def __init__(self, f: Sequence[str]) -> None:
        self.rows: dict[Any, int] = {}
        self._f = f
        self._again: dict[Any, list[int]] = {}  # those that add what another one does

    def add(self, part: Any, row: int) -> None:
        """Add one more part and its row."""
        if part in self.rows:
            self._again.setdefault(part, []).append(row)
        else:
            self.rows[part] = row

    def read(self, text: str, at: int, lengths: Sequence[int]) -> list[tuple[int, int]] | None:
        """Find who made a string from a place on, as (length then, row), each used once.

        A put can only be its beginning.
        """
        rows, n = self.rows, len(text)
        found = []
        while at < n:
            for length in lengths:
                part = text[at : at + length]
                row = rows.pop(part, None)
                if row is not None:
                    break
            else:
                return None
            if at and self._f[row] == "put":
                return None
            if part in self._again:
                rows[part] = self._again[part].pop(0)
                if not self._again[part]:
                    del self._again[part]
            at += len(part)
            found.append((at, row))
        return found

    def left(self) -> list[int]:
        """The rows that were not used."""
        return [*self.rows.values(), *(row for rows in self._again.values() for row in rows)]


def _passes(columns: Columns, blocks: Sequence[_Block], left: Sequence[int]) -> bool:
    """Tell whether the order of blocks by when they can be at first agrees with time.

    An append that nobody saw comes as late as it may: right before a put, or at the end. One of
    unknown outcome is no exception: it never returned, so it is never too late.
    """
    f, begin, end = columns.f, columns.begin, columns.end
    unseen = sorted([row for row in left if f[row] == "append"], key=end.__getitem__)
    spans = [(begin[row], begin[row], [row]) for row in left if f[row] == "put"]
    for _, _, placed in blocks:
        rows = [row for of_length in placed.values() for row in of_length]
        until = max([begin[row] for row in rows])
        since = min(until, *[end[row] for row in rows]) if f[rows[0]] == "put" else -inf
        spans.append((since, until, rows))
    spans.sort(key=itemgetter(0))
    order: list[int] = []
    at = 0
    for since, until, rows in spans:
        while since != -inf and at < len(unseen) and end[unseen[at]] < until:
            order.append(unseen[at])
            at += 1
        order += rows
    latest = -inf
    for row in order + unseen[at:]:
        if end[row] < latest:
            return False
        if begin[row] > latest:  # noqa: PLR1730 - a call of max would cost twice as much
            latest = begin[row]
    return True
