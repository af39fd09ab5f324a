"""Our own histories: JSON lines, one op each (see ``harness.history``), read as a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from harness.errors import HistoryFormatError
from harness.formats.conventions import Conventions, LoadedHistory
from harness.formats.edn import DEPTH_MAX
from harness.history import History, Op, op_from_json


def read(lines: Iterable[str], *, source: str) -> LoadedHistory:
    """Read a JSON-lines history.

    A last line without a newline counts when it is a whole op; a torn one (the writer was
    killed) is dropped.

    Raises:
        HistoryFormatError: A line that is not an op, with ``path:line``.
    """
    ops: list[Op] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip("\ufeff \t\r\n")
        if not text:
            continue
        try:
            ops.append(_op(text, index=len(ops)))
        except (ValueError, RecursionError) as error:
            if not line.endswith("\n") and ops and isinstance(error, msgspec.DecodeError):
                break  # torn: half an object is never JSON
            raise HistoryFormatError(f"{source}:{number}: not an op: {error}") from error
        numbers.append(number)
    return LoadedHistory(History(ops), Conventions(), "jsonl", tuple(numbers))


def _op(text: str, *, index: int) -> Op:
    fields = msgspec.json.decode(text)
    if not isinstance(fields, dict):
        raise ValueError(f"want an object, found {type(fields).__name__}")
    _check_depth(fields.get("value"))
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
