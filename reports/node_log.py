"""A node's own log, line by line, found by the run's time: the last that it wrote by a moment.

A simulated node stamps its lines with the run's time. A live one has the wall clock of its host,
which is tied to the run's by its starts: the line that says where it serves belongs to the
``start`` event. A log that says neither has no times here, and its lines are not pointed at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from reports.model import LogLine
from reports.text import clean

ASKED_MAX: Final = 120  # lines of one log that links may lead to
AROUND: Final = 3  # lines shown before and after each of them
LINE_CHARS_MAX: Final = 500
_STAMP_CHARS: Final = 40  # a time stands at the very beginning of a line
_SIMULATED: Final = re.compile(r"(\d{1,9})\.(\d{6}) [A-Z]")
_WALL: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,](\d{3})")
_SERVES: Final = re.compile(r"\bnode \d+ serves on ")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NodeLog:
    """The log of one node.

    Args:
        anchor: The id of the node's place on the page.
        lines: All lines; may be hostile.
        starts_ns: When its processes began, in the run's time.
    """

    def __init__(self, anchor: str, lines: Sequence[str], starts_ns: Sequence[int]) -> None:
        self._anchor = anchor
        self._lines = lines
        self._starts_ns = starts_ns
        self._asked: set[int] = set()

    def link(self, time_ns: int | None = None) -> str:
        """Give a link to the last line written by that time, or to the whole log if none is known.

        A line that is linked to is one of those shown.
        """
        at = None if time_ns is None else self.at(time_ns)
        if at is None or (at not in self._asked and len(self._asked) >= ASKED_MAX):
            return f"#{self._anchor}"
        self._asked.add(at)
        return f"#{self._id(at)}"

    def at(self, time_ns: int) -> int | None:
        """The number, from 1 on, of the last line stamped by then; the first stamped, if none."""
        times, numbers = self._stamped
        return numbers[max(0, bisect_right(times, time_ns) - 1)] if times else None

    def rows(self, first: int, last: int) -> tuple[LogLine, ...]:
        """The lines with these numbers, both included."""
        return tuple(self._row(number) for number in range(first, last + 1))

    def around(self, below: int) -> tuple[LogLine, ...]:
        """The lines linked to and some beside each, as far as their numbers are below that one.

        Where lines are left out there is one without a number.
        """
        shown: list[LogLine] = []
        wanted = {n for asked in self._asked for n in range(asked - AROUND, asked + AROUND + 1)}
        before = 0
        for number in sorted(n for n in wanted if 1 <= n < below):
            if shown and number > before + 1:
                shown.append(LogLine(None, "…", ""))
            shown.append(self._row(number))
            before = number
        return tuple(shown)

    def _row(self, number: int) -> LogLine:
        text = clean(self._lines[number - 1], limit=LINE_CHARS_MAX)
        return LogLine(number, text, self._id(number) if number in self._asked else "")

    def _id(self, number: int) -> str:
        return f"{self._anchor}-l{number}"

    @cached_property
    def _stamped(self) -> tuple[list[int], list[int]]:
        """Times in ns of the run, never falling, and the numbers of the lines that have them.

        A line without a time belongs to the one before it.
        """
        times, numbers = list[int](), list[int]()
        for number, time_ns in enumerate(_run_times(self._lines, self._starts_ns), start=1):
            if time_ns is not None:
                times.append(max(time_ns, times[-1]) if times else time_ns)
                numbers.append(number)
        return times, numbers


def _run_times(lines: Sequence[str], starts_ns: Sequence[int]) -> Iterator[int | None]:
    heads = [str(line)[:_STAMP_CHARS] for line in lines]
    simulated = [_SIMULATED.match(head) for head in heads]
    if any(simulated):
        for stamp in simulated:
            yield None if stamp is None else int(stamp[1]) * 10**9 + int(stamp[2]) * 1000
        return
    walls = [_wall_ns(head) for head in heads]
    origins = _origins(lines, walls, starts_ns)
    origin = next((each for each in origins if each is not None), None)
    if origin is None:
        return
    for wall, known in zip(walls, origins, strict=True):
        origin = origin if known is None else known
        yield None if wall is None else wall - origin


def _origins(
    lines: Iterable[str], walls: Sequence[int | None], starts_ns: Sequence[int]
) -> list[int | None]:
    """Tell what the wall clock said at the run's beginning, at each line that tells of a start.

    A process that ended before it served makes more starts than lines: then the first must do.
    """
    serving = [
        at for at, line in enumerate(lines) if walls[at] is not None and _SERVES.search(str(line))
    ]
    pairs = list(zip(serving, starts_ns, strict=False))
    if len(serving) != len(starts_ns):
        pairs = pairs[:1]
    out: list[int | None] = [None] * len(walls)
    for at, start_ns in pairs:
        wall = walls[at]
        out[at] = None if wall is None else wall - start_ns
    return out


def _wall_ns(head: str) -> int | None:
    """A wall clock's time, in whatever zone, in ns; None when the line does not begin with one."""
    found = _WALL.match(head)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}.{found[3]}+00:00")
    except ValueError:  # the 99th of some month
        return None
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
