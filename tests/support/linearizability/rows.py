"""Rows of a table of calls, written as one reads them: what, seen or given, from when to when."""

from __future__ import annotations

from typing import Any

from checkers.linearizability.columns import Columns

Row = tuple[str, Any, Any, float, float]  # f, value, seen, begin, end


def columns(*rows: Row, key: list[Any] | None = None) -> Columns:
    f, value, seen, begin, end = (list(column) for column in zip(*rows, strict=True))
    return Columns(f, value, seen, begin, end, key)


def write(value: Any, begin: float, end: float) -> Row:
    return ("write", value, None, begin, end)


def read(seen: Any, begin: float, end: float) -> Row:
    return ("read", None, seen, begin, end)


def cas(old: Any, new: Any, begin: float, end: float) -> Row:
    return ("cas", new, old, begin, end)


def failed(old: Any, begin: float, end: float) -> Row:
    return ("not", None, old, begin, end)


def get(seen: Any, begin: float, end: float) -> Row:
    return ("get", None, seen, begin, end)


def append(value: Any, begin: float, end: float, at: int | None = None) -> Row:
    return ("append", value, at, begin, end)


def put(value: Any, begin: float, end: float) -> Row:
    return ("put", value, None, begin, end)
