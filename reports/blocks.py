"""The shapes a picture is made of, as plain data; ``picture.html`` draws each kind of block.

Horizontal places are shares of the width, in percent: a picture is as wide as the page lets it be,
and its text keeps its size. ``tone`` is a class of ``pictures.css``, never foreign text; all other
strings are escaped by the template.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar over time, for a thing that lasted."""

    x: float
    width: float
    tone: str
    text: str = ""
    title: str = ""
    href: str = ""
    marked: bool = False  # the one to look at


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment; ``sign`` is a number or a letter that a note explains."""

    x: float
    tone: str
    sign: str
    title: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """The actions of one node or process."""

    label: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    href: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from a place on one lane to a place on another (indices of lanes)."""

    x1: float
    lane1: int
    x2: float
    lane2: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of the time axis; ``anchor`` is start, middle or end."""

    x: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes over time."""

    block: ClassVar[str] = "lanes"
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    alt: str
    arrows: tuple[Arrow, ...] = ()
    ways: tuple[tuple[tuple[float, int], ...], ...] = ()  # dotted lines through (x, lane)


@dataclass(frozen=True, slots=True)
class Note:
    """The meaning of a mark: when, who, what. ``op`` is an index of the history."""

    sign: str
    tone: str
    text: str
    time_ns: int | None = None
    where: str = ""
    op: int | None = None
    href: str = ""  # to more of ``where``
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes in order; ``title`` stands above them."""

    block: ClassVar[str] = "notes"
    notes: tuple[Note, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of a story, its mark at ``x`` pixels; the rails beside it as (tone, path)."""

    note: Note
    x: int | None
    rails: tuple[tuple[str, str], ...]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """The life of something, from top to bottom, beside one rail for each node."""

    block: ClassVar[str] = "story"
    rails: tuple[tuple[str, str], ...]  # name, link
    steps: tuple[Step, ...]
    alt: str


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell of one side in a row; ``lines`` is empty when it has nothing."""

    lines: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of both sides; ``relation`` is same, first, other or lone."""

    place: str
    left: Cell
    right: Cell
    relation: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Two views side by side."""

    block: ClassVar[str] = "columns"
    left: tuple[str, str]  # name, link
    right: tuple[str, str]
    rows: tuple[Row, ...]
    place: str  # what the rows are places of
    alt: str


@dataclass(frozen=True, slots=True)
class Vertex:
    """A circle of a ring, in pixels of the drawing."""

    x: float
    y: float
    sign: str
    title: str
    href: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A labelled way from circle to circle; ``path`` is made of numbers of ours."""

    path: str
    x: float
    y: float
    tone: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Ring:
    """A small graph."""

    block: ClassVar[str] = "ring"
    width: int
    height: int
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    anchor: str  # of its own on the page
    alt: str


Block = Lanes | Notes | Story | Columns | Ring


@dataclass(frozen=True, slots=True)
class Picture:
    """The explanation of one anomaly: blocks from top to bottom, under one sentence."""

    kind: str
    caption: str
    blocks: tuple[Block, ...]
    small: tuple[str, ...] = field(default=())  # remarks below
