"""Histories to judge, made from a seed: what clients of a correct register see, and stale reads."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from checkers.linearizability.columns import Columns

Row = list[Any]  # f, value, seen, begin, end, key


def registers(  # noqa: PLR0913, PLR0915 - a scenario is read from top to bottom
    n: int,
    in_flight: int,
    *,
    keys: int = 1,
    values: int | None = None,
    unknown: float = 0.0,
    cas: float = 0.0,
    stale: bool = False,
    seed: int = 1,
) -> Columns:
    """Ops of correct registers, with so many always in flight.

    ``values``: how many there are to write; None gives every write one of its own. ``unknown``:
    the share of writes and cas whose outcome nobody knows. ``stale``: nine tenths into it one
    read returns a value that was overwritten before it began.
    """
    rng = Random(seed)
    state: dict[int, int | None] = {}
    rows: list[Row] = []
    waiting: list[int] = []  # rows that have not taken effect
    done: list[int] = []  # rows that have, and not returned
    quiet = (int(n * 0.9), int(n * 0.9) + 20 * in_flight) if stale else (n, n)
    victim: int | None = None
    banned: int | None = None  # the value that will be stale
    ended = 0
    time = 0
    while len(rows) < n or waiting or done:
        time += 1
        if len(rows) < n and len(waiting) + len(done) < in_flight:
            row = len(rows)
            if row == quiet[0]:
                banned = 0 if values else row
            key = rng.randrange(keys)
            kind = rng.random()
            value = _value(rng, row, values, banned if row >= quiet[0] else None)
            old = rng.randrange(values) if values else state.get(key)
            if row == quiet[0] and stale and not values:
                kind, key = 0.5, 0
                value = banned  # type: ignore[assignment]
            if row == quiet[1] and stale:
                victim, kind, key = row, 0.0, 0
            if kind < 0.5:
                rows.append(["read", None, None, time, None, key])
            elif kind < 1 - cas / 2 or old is None or old == banned:
                rows.append(["write", value, None, time, None, key])
            else:
                rows.append(["cas", value, old, time, None, key])
            waiting.append(row)
            continue
        if waiting and (not done or rng.random() < 0.5):
            row = _draw(rng, waiting)
            op = rows[row]
            lost = op[0] != "read" and op[1] != 0 and bool(rng.random() < unknown)
            if not lost or rng.random() < 0.5:
                _apply(op, state)
            if lost and op[0] != "not":
                op[4] = inf
                continue
            done.append(row)
            continue
        row = _draw(rng, done)
        rows[row][4] = time
        ended += 1
    if victim is not None:
        rows[victim][2] = banned
    names, made, seen, begin, end, owner = (list(c) for c in zip(*rows, strict=True))
    return Columns(names, made, seen, begin, end, owner if keys > 1 else None)


def _draw(rng: Random, among: list[int]) -> int:
    at = rng.randrange(len(among))
    among[at], among[-1] = among[-1], among[at]
    return among.pop()


def _value(rng: Random, row: int, values: int | None, banned: int | None) -> int:
    if values is None:
        return row
    if banned is None:
        return rng.randrange(values)
    value = rng.randrange(values - 1)
    return value + (value >= banned)


def _apply(op: Row, state: dict[int, int | None]) -> None:
    f, value, old, _, _, key = op
    now = state.get(key)
    match f:
        case "read":
            op[2] = now
        case "write":
            state[key] = value
        case _ if now == old:
            state[key] = value
        case _:
            op[0], op[1] = "not", None


def write(columns: Columns, path: Path, *, model: str = "register", initial: str = "None") -> None:
    """Write a history as bench/porcupine reads it."""
    keys: Iterable[Any] = columns.key or [0] * len(columns)
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{model}\t{initial}\n")
        rows = zip(
            keys, columns.f, columns.value, columns.seen, columns.begin, columns.end, strict=True
        )
        for key, f, value, seen, begin, end in rows:
            last = "-" if end == inf else end
            file.write(f"{key}\t{f}\t{value}\t{seen}\t{begin}\t{last}\n")
