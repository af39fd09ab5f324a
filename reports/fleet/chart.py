"""Stacked bars over time, as positions in a drawing that a page stretches to its width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

HEIGHT, TOP, FOOT = 190, 18, 22  # pixels: all of it; above the highest bar; below the axis
SLOTS_MIN: Final = 8  # so that one bar is not as wide as the page
FILLED: Final = 0.82  # of a slot
MARKS_MAX: Final = 6  # moments below the axis
TICKS_MAX: Final = 5  # counts beside it
COUNTS_MAX: Final = 12  # bars that have their count above them on a phone, too
PART_MIN: Final = 2.0  # pixels: one run of thousands can still be seen
_LATE: Final = 80.0  # percent: a moment from here on is written to its left


@dataclass(frozen=True, slots=True)
class Column:
    """The content of one bar."""

    label: str  # its moment, below the axis
    title: str  # all it says, for who points at it
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: pixels from above."""

    verdict: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: percent of the width, pixels of the height."""

    slot: float
    slot_width: float
    x: float
    width: float
    middle: float
    y: float
    total: int
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across at a count."""

    y: float
    count: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment below the axis; ``minor`` ones are left out where there is little room."""

    x: float
    label: str
    anchor: str
    minor: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole chart."""

    name: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    shown: tuple[str, ...]  # the verdicts that are in it
    few: bool  # so few bars that each has its count above it anywhere
    height: int = HEIGHT
    floor: int = HEIGHT - FOOT


def chart(name: str, columns: Sequence[Column], verdicts: Sequence[str]) -> Chart | None:
    """Lay out columns, the earliest first; None when there is nothing to show.

    Args:
        name: What it counts, over what: its name for who cannot see it.
        columns: The bars.
        verdicts: Kinds of counts, the one on top of each bar first.
    """
    totals = [sum(column.counts.values()) for column in columns]
    if not any(totals):
        return None
    step = _step(max(totals))
    top = -(-max(totals) // step) * step
    scale = (HEIGHT - FOOT - TOP) / top
    slot = 100 / max(len(columns), SLOTS_MIN)
    bars = tuple(_bar(column, n * slot, slot, scale, verdicts) for n, column in enumerate(columns))
    return Chart(
        name,
        bars,
        tuple(Tick(_px(HEIGHT - FOOT - n * scale), n) for n in range(0, top + 1, step)),
        tuple(_marks(columns, slot)),
        tuple(word for word in verdicts if any(column.counts.get(word) for column in columns)),
        len(columns) <= COUNTS_MAX,
    )


def _bar(column: Column, at: float, slot: float, scale: float, verdicts: Sequence[str]) -> Bar:
    floor = y = float(HEIGHT - FOOT)
    parts = []
    for verdict in reversed(verdicts):
        count = column.counts.get(verdict, 0)
        if count:
            height = max(PART_MIN, count * scale)
            y -= height
            parts.append(Part(verdict, _px(y), _px(height)))
    return Bar(
        slot=_px(at),
        slot_width=_px(slot),
        x=_px(at + slot * (1 - FILLED) / 2),
        width=_px(slot * FILLED),
        middle=_px(at + slot / 2),
        y=_px(min(y, floor)),
        total=sum(column.counts.values()),
        title=column.title,
        parts=tuple(parts),
    )


def _marks(columns: Sequence[Column], slot: float) -> list[Mark]:
    every = -(-len(columns) // MARKS_MAX)
    marks = []
    for number, n in enumerate(range(0, len(columns), every)):
        at = n * slot
        late = at > _LATE
        where = at + slot if late else at
        anchor = "end" if late else "start"
        marks.append(Mark(_px(where), columns[n].label, anchor, minor=number % 3 > 0))
    return marks


def _step(most: int) -> int:
    """The distance of ticks: 1, 2 or 5 times a power of ten."""
    unit = 1
    while True:
        for times in (1, 2, 5):
            if most <= times * unit * (TICKS_MAX - 1):
                return times * unit
        unit *= 10


def _px(value: float) -> float:
    return round(value, 2)
