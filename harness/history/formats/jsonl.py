"""JSON lines, one op each (see ``harness.history.ops``), read as a stream: ours and others'.

An array of ops is read too, however it is broken into lines. ``f`` may be missing where the value
is a list of micro-ops: it is ``txn``, as in Elle's histories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from harness.errors import HistoryFormatError
from harness.history.formats.conventions import Conventions, LoadedHistory
from harness.history.formats.edn import DEPTH_MAX
from harness.history.formats.guess import TXN, is_txn, model_of
from harness.history.ops import History, Op, op_from_json

_BLANK = "\ufeff \t\r\n"
_BETWEEN = frozenset(" \t\r\n,")


def read(lines: Iterable[str], *, source: str) -> LoadedHistory:
    """Read a history of JSON lines, or one JSON array.

    A last line without a newline counts when it is a whole op; a torn one (the writer was
    killed) is dropped.

    Raises:
        HistoryFormatError: A line that is not an op, with ``path:line``.
    """
    lines = iter(lines)
    head = list(_head(lines))
    if head and head[-1].lstrip(_BLANK).startswith("["):
        return _array("".join(chain(head, lines)), source)
    ops: list[Op] = []
    numbers: list[int] = []
    for number, line in enumerate(chain(head, lines), start=1):
        text = line.strip(_BLANK)
        if not text:
            continue
        try:
            ops.append(_op(text, index=len(ops)))
        except (ValueError, RecursionError) as error:
            if not line.endswith("\n") and ops and isinstance(error, msgspec.DecodeError):
                break  # torn: half an object is never JSON
            raise HistoryFormatError(f"{source}:{number}: not an op: {error}") from error
        numbers.append(number)
    return _loaded(ops, numbers)


def _loaded(ops: list[Op], numbers: list[int]) -> LoadedHistory:
    return LoadedHistory(History(ops), Conventions(model=model_of(ops)), "jsonl", tuple(numbers))


def _head(lines: Iterator[str]) -> Iterator[str]:
    """The lines up to the first that says anything."""
    for line in lines:
        yield line
        if line.strip(_BLANK):
            return


def _array(text: str, source: str) -> LoadedHistory:
    """An array of ops, one by one, so that a bad one can be named by its line."""
    ops: list[Op] = []
    numbers: list[int] = []
    decoder = json.JSONDecoder()
    at, number, counted = text.index("[") + 1, 1, 0
    while True:
        while text[at : at + 1] in _BETWEEN:
            at += 1
        number += text.count("\n", counted, at)
        counted = at
        if text[at : at + 1] == "]":
            return _loaded(ops, numbers)
        if at >= len(text):
            raise HistoryFormatError(
                f"{source}:{number}: the array is never closed: is the file cut short?"
            )
        try:
            fields, at = decoder.raw_decode(text, at)
            ops.append(_checked(fields, index=len(ops)))
        except (ValueError, RecursionError) as error:
            raise HistoryFormatError(f"{source}:{number}: not an op: {error}") from error
        numbers.append(number)


def _op(text: str, *, index: int) -> Op:
    return _checked(msgspec.json.decode(text), index=index)


def _checked(fields: Any, *, index: int) -> Op:
    if not isinstance(fields, dict):
        raise ValueError(f"want an object, found {type(fields).__name__}")
    _check_depth(fields.get("value"))
    if fields.get("f") is None and is_txn(fields.get("value")):
        fields["f"] = TXN
    return op_from_json(fields, index=index)


def _check_depth(value: Any) -> None:
    """Refuse what those who compare and print values could not walk; never recurses itself."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"value is nested deeper than {DEPTH_MAX} brackets")
