"""Calls as columns: the form in which large histories are judged.

One row is one op, as a model's ``Action`` with the times between which it took effect. Rows stand
in the order in which the ops began. A million rows of lists are some 100 MB; as objects they would
be ten times that.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

from harness.errors import HistoryFormatError


@dataclass(frozen=True, slots=True)
class Columns:
    """Ops of one or more keys; all columns are of one length.

    ``f``: read, write, cas (one that took effect, or may have) or not (a cas that compared false);
    for a string store get, put and append. ``value``: what was written, or to what the cas
    changed it; None for reads. ``seen``: what a read returned, or the value that a cas compared
    with. ``begin`` and ``end``: when, in any unit, closed, so that equal times are concurrent;
    ``math.inf`` as end is an unknown outcome. ``key``: None when all ops are of one object.
    """

    f: Sequence[str]
    value: Sequence[Hashable]
    seen: Sequence[Hashable]
    begin: Sequence[float]
    end: Sequence[float]
    key: Sequence[Hashable] | None = None

    def __len__(self) -> int:
        return len(self.f)

    def check(self) -> None:
        """Raise HistoryFormatError where these are no columns of calls."""
        n = len(self.f)
        columns = {"value": self.value, "seen": self.seen, "begin": self.begin, "end": self.end}
        if self.key is not None:
            columns["key"] = self.key
        for name, column in columns.items():
            if len(column) != n:
                raise HistoryFormatError(
                    f"column {name!r} has {len(column)} rows, column 'f' has {n}: they must agree"
                )
        for row, (before, after) in enumerate(pairwise(self.begin), start=1):
            if not before <= after:
                raise HistoryFormatError(
                    f"row {row} began at {after}, the row before it at {before}: sort by 'begin'"
                )
        for row, (begin, end) in enumerate(zip(self.begin, self.end, strict=True)):
            if not begin <= end:
                raise HistoryFormatError(
                    f"row {row} ended at {end}, before it began at {begin}: no op does that"
                )

    def by_key(
        self, only: Container[Hashable] | None = None
    ) -> Iterator[tuple[Hashable, Sequence[int], Columns]]:
        """Each key's rows and their columns, keys in order of appearance. O(n)."""
        if self.key is None:
            yield None, range(len(self.f)), self
            return
        for key, of_key in self.rows_by_key(only).items():
            yield key, of_key, self.take(of_key)

    def rows_by_key(self, only: Container[Hashable] | None = None) -> dict[Hashable, list[int]]:
        """Each key's rows, keys in order of appearance; for columns that have keys. O(n)."""
        rows: dict[Hashable, list[int]] = {}
        for row, key in enumerate(self.key or ()):
            if key in rows:
                rows[key].append(row)
            elif only is None or key in only:
                rows[key] = [row]
        return rows

    def take(self, rows: Sequence[int], *, keep_key: bool = False) -> Columns:
        """Give these rows as columns, without their keys unless ``keep_key``."""
        pick = _pick(rows)
        return Columns(
            pick(self.f),
            pick(self.value),
            pick(self.seen),
            pick(self.begin),
            pick(self.end),
            pick(self.key) if keep_key and self.key is not None else None,
        )


def _pick(rows: Sequence[int]) -> Any:
    """A function from a column to what stands in these rows."""
    if len(rows) > 1:
        return itemgetter(*rows)
    return lambda column: [column[row] for row in rows]
