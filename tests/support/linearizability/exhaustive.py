"""Every history of a few ops, up to what cannot matter, and a judge that tries every order.

What matters of when ops ran is only which ended before which began: an interval order. There are
1, 2, 5, 15 and 53 of them on 1 to 5 ops, up to renaming. Ops that began and ended alike can be
exchanged, and so can the values 1 and 2. An op of unknown outcome never ends, so nothing follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations, product
from math import inf
from typing import Any

from checkers.linearizability.columns import Columns
from tests.support.linearizability.brute import shapes

Kind = tuple[str, Any, Any, bool]  # f, value, seen, whether its outcome is unknown
_VALUES = (None, 1, 2)


def kinds(*, cas: bool) -> list[Kind]:
    """Every op on three values, of which None is the initial one."""
    found: list[Kind] = [("read", None, v, False) for v in _VALUES]
    found += [("write", v, None, lost) for v in _VALUES for lost in (False, True)]
    if cas:
        pairs = [(a, b) for a in _VALUES for b in _VALUES if a != b]
        found += [("cas", b, a, lost) for a, b in pairs for lost in (False, True)]
        found += [("not", None, a, False) for a in _VALUES]
    return found


def interval_orders(n: int) -> list[list[tuple[int, int]]]:
    """One (begin, end) for each op, for every interval order on n ops up to renaming."""
    found: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
    for shape in shapes(n):
        spans = [(shape.index(op), len(shape) - 1 - shape[::-1].index(op)) for op in range(n)]
        forms = (
            tuple(spans[a][1] < spans[b][0] for a in order for b in order)
            for order in permutations(range(n))
        )
        found.setdefault(min(forms), spans)
    return list(found.values())


def histories(n: int, *, cas: bool) -> Iterator[Columns]:
    """Every history of n ops, each once."""
    known = [kind for kind in kinds(cas=cas) if not kind[3]]
    every = kinds(cas=cas)
    rank = {kind: at for at, kind in enumerate(every)}
    swap = [rank[_swapped(kind)] for kind in every]
    for spans in interval_orders(n):
        twins: dict[tuple[tuple[bool, ...], tuple[bool, ...]], list[int]] = {}
        for op, (begin, end) in enumerate(spans):
            before = tuple(other[1] < begin for other in spans)
            after = tuple(end < other[0] for other in spans)
            twins.setdefault((before, after), []).append(op)
        choices = [
            list(
                combinations_with_replacement(
                    [rank[kind] for kind in (known if any(after) else every)], len(ops)
                )
            )
            for (_, after), ops in twins.items()
        ]
        places = [op for ops in twins.values() for op in ops]
        for chosen in product(*choices):
            mirror = tuple(tuple(sorted(swap[one] for one in part)) for part in chosen)
            if mirror < chosen:
                continue
            ops = [every[one] for part in chosen for one in part]
            yield _columns(spans, places, ops)


def _swapped(kind: Kind) -> Kind:
    other = {1: 2, 2: 1}
    f, value, seen, lost = kind
    return f, other.get(value, value), other.get(seen, seen), lost


def _columns(
    spans: Sequence[tuple[int, int]], places: Sequence[int], ops: Sequence[Kind]
) -> Columns:
    rows = sorted(
        (
            (spans[op][0], kind, inf if kind[3] else spans[op][1])
            for op, kind in zip(places, ops, strict=True)
        ),
        key=lambda row: row[0],
    )
    return Columns(
        [kind[0] for _, kind, _ in rows],
        [kind[1] for _, kind, _ in rows],
        [kind[2] for _, kind, _ in rows],
        [begin for begin, _, _ in rows],
        [end for _, _, end in rows],
    )


def by_every_order(columns: Columns) -> bool:
    """Whether some order of all known and some unknown ops explains what was seen."""
    n = len(columns)
    f, value, seen, begin, end = (
        columns.f,
        columns.value,
        columns.seen,
        columns.begin,
        columns.end,
    )
    needs = [
        sum(1 << b for b in range(n) if end[b] < begin[a]) for a in range(n)
    ]  # what must come before
    must = sum(1 << a for a in range(n) if end[a] != inf)
    stack: list[tuple[int, Any]] = [(0, None)]
    known = {(0, None)}
    while stack:
        done, state = stack.pop()
        if done & must == must:
            return True
        for a in range(n):
            if done >> a & 1 or needs[a] & ~done:
                continue
            kind = f[a]
            to = state
            if kind == "write":
                to = value[a]
            elif (state == seen[a]) is (kind == "not"):
                continue
            elif kind == "cas":
                to = value[a]
            entry = (done | 1 << a, to)
            if entry not in known:
                known.add(entry)
                stack.append(entry)
    return False
