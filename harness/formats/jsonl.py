"""Our own histories: JSON lines, one op each (see ``harness.history``), read as a stream."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.errors import HistoryFormatError
from harness.formats.conventions import Conventions, LoadedHistory
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
    return op_from_json(fields, index=index)
