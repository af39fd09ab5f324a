"""Porcupine's logs of Jepsen runs against etcd: one line an event, columns of tabs *or* blanks.

::

    INFO  jepsen.util - 3	:invoke	:cas	[1 4]
    INFO  jepsen.util - 3   :fail   :cas    [1 4]

A register with compare-and-set, initially nil, and a read of nil means it. ``:fail :cas`` took
effect as a comparison that was false; ``:fail :read :timed-out`` says nothing.

Source: github.com/anishathalye/porcupine, test data and its reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harness.errors import HistoryFormatError
from harness.history.formats.conventions import Conventions, LoadedHistory
from harness.history.ops import NEMESIS, History, Op, OpType

_EVENT = re.compile(
    r"INFO\s+jepsen\.util\s+-\s+(?P<process>\d+|:nemesis)\s+:(?P<type>invoke|ok|fail|info)"
    r"\s+:(?P<f>\S+)(?:\s+(?P<value>\S.*?))?\s*"
)
_PREFIX = re.compile(r"INFO\s+jepsen\.util\s+-\s+(?:\d+|:nemesis)\s+:")
_INTEGER = re.compile(r"-?\d{1,400}")
_PAIR = re.compile(r"\[\s*(-?\d{1,400}|nil)[\s,]+(-?\d{1,400}|nil)\s*\]")
_CONVENTIONS = Conventions(initial=None, failed_cas="observation", model="cas-register")


def looks_like(line: str) -> bool:
    """Tell whether a line is an event of such a log."""
    return _EVENT.fullmatch(line.rstrip("\r\n")) is not None


def read(lines: Iterable[str], *, source: str) -> LoadedHistory:
    """Read such a log; lines of other loggers are skipped, an event that is half read is not.

    Raises:
        HistoryFormatError: An event line that cannot be understood, with ``path:line``.
    """
    ops: list[Op] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, start=1):
        match = _EVENT.fullmatch(line.rstrip("\r\n"))
        if match is None:
            if _PREFIX.match(line) is not None:
                raise HistoryFormatError(
                    f"{source}:{number}: cannot read {line.strip()[:80]!r}: want "
                    f"'INFO jepsen.util - PROCESS :TYPE :F VALUE'"
                )
            continue
        try:
            ops.append(_op(match, index=len(ops)))
        except ValueError as error:
            raise HistoryFormatError(f"{source}:{number}: not an op: {error}") from error
        numbers.append(number)
    return LoadedHistory(History(ops), _CONVENTIONS, "porcupine", tuple(numbers))


def _op(match: re.Match[str], *, index: int) -> Op:
    kind: OpType = match["type"]  # type: ignore[assignment]
    process: int | str = NEMESIS if match["process"] == ":nemesis" else int(match["process"])
    value, error = _value(match["value"])
    if kind == "fail" and match["f"] != "read" and error is not None:
        kind = "info"  # a mutator that "failed" by a timeout: nobody knows
    return Op(index, index, process, kind, match["f"], value, error=error)


def _value(text: str | None) -> tuple[Any, str | None]:
    """The value, or the error that stands in its place."""
    if text is None or text == "nil":
        return None, None
    if text.startswith(":"):
        return None, text[1:]
    if _INTEGER.fullmatch(text):
        return int(text), None
    pair = _PAIR.fullmatch(text)
    if pair is not None:
        return [None if part == "nil" else int(part) for part in pair.groups()], None
    raise ValueError(f"value {text[:40]!r}, want nil, a number, [OLD NEW] or an error keyword")
