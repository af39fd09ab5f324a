"""Pictures of anomalies: each module of this folder draws one kind, and is found by itself.

A painter looks at the finding and draws it, or says that this is nothing for it (None). The first
two that draw something explain the finding; ``moments`` draws whatever is left.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from reports.blocks import Picture
from reports.drawing.scene import Scene
from reports.text import clean, integer

PICTURES_MAX = 2  # of one finding
DRAWN_MAX = 60  # findings of one report


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly as the results have it, made safe to look at."""

    number: int
    invariant: str
    message: str
    details: Mapping[str, Any]
    events: tuple[Mapping[str, Any], ...]
    ops: tuple[int, ...]
    nodes: tuple[str, ...]
    time_ns: int | None
    rows: frozenset[int] = frozenset()  # indices of the ops that the page has a row of

    @classmethod
    def of(
        cls, number: int, raw: Mapping[str, Any], nodes: Sequence[str], rows: Sequence[int]
    ) -> Finding:
        """Tell what JSON says of an anomaly; what is of the wrong kind is not there."""
        details, events, ops = (raw.get(name) for name in ("details", "events", "ops"))
        listed = events if isinstance(events, list | tuple) else ()
        return cls(
            number=number,
            invariant=clean(raw.get("invariant", "?"), limit=60),
            message=clean(raw.get("message", "")),
            details=details if isinstance(details, Mapping) else {},
            events=tuple(event for event in listed if isinstance(event, Mapping)),
            ops=tuple(i for i in ops if integer(i) is not None) if isinstance(ops, list) else (),
            nodes=tuple(nodes),
            time_ns=integer(raw.get("time_ns")),
            rows=frozenset(rows),
        )

    def anchor(self, name: object) -> str:
        """An id on the page, of this finding only; ``name`` is made of our own words."""
        return f"a{self.number}-{name}"

    def op_link(self, index: int | None) -> str:
        """Tell where the page has the row of an op; empty when it has none."""
        return f"#{self.anchor(f'op-{index}')}" if index in self.rows else ""


Draw = Callable[[Finding, Scene], Picture | None]


@dataclass(frozen=True, slots=True)
class Painter:
    """Draws one kind of picture; the lower ``order``, the earlier it is asked."""

    name: str
    order: int
    draw: Draw
    rest: bool  # draws only what nobody else has drawn


_painters: dict[str, Painter] = {}


def painter(order: int, *, rest: bool = False) -> Callable[[Draw], Draw]:
    """Make a function a painter, called as its module."""

    def register(draw: Draw) -> Draw:
        name = draw.__module__.rpartition(".")[2]
        _painters[name] = Painter(name, order, draw, rest)
        return draw

    return register


@cache
def painters() -> tuple[Painter, ...]:
    """All painters, in the order in which they are asked."""
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(sorted(_painters.values(), key=lambda each: (each.rest, each.order, each.name)))


def draw(finding: Finding, scene: Scene) -> tuple[Picture, ...]:
    """The pictures that explain a finding; none when nothing is known but its message."""
    out: list[Picture] = []
    for each in painters():
        if len(out) == PICTURES_MAX or (each.rest and out):
            break
        picture = each.draw(finding, scene)
        if picture is not None:
            out.append(picture)
    return tuple(out)
