"""Transactions that wait for each other in a circle: who had to come before whom, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import Any, Final

from reports.blocks import Edge, Note, Notes, Picture, Ring, Vertex
from reports.drawing.scene import Scene, op_words
from reports.pictures import Finding, painter
from reports.text import clean, integer

TRANSACTIONS_MAX = 24
SIZE = 300  # pixels, of a ring of up to EASY
EASY = 7
PAIR = 2  # lie side by side
MORE = 14  # pixels for each beyond that
MARGIN = 46  # from the ring to the edge of the drawing
CIRCLE = 17
BEND = 0.22  # of the way between two circles
_MEANS: Final = {
    "ww": "wrote after it",
    "wr": "read what it wrote",
    "rw": "wrote what it did not see",
    "realtime": "began after it had ended",
    "process": "same process, later",
}


@dataclass(frozen=True, slots=True)
class _Step:
    """``source`` came before ``target`` (numbers of ops)."""

    source: int
    kind: str
    target: int
    why: str


@painter(10)
def cycle(finding: Finding, scene: Scene) -> Picture | None:
    """The transactions of a cycle in a ring, an arrow for each reason."""
    steps = _shortened(list(_steps(finding.details.get("cycle"))))
    ops = list(dict.fromkeys(step.source for step in steps))
    if not steps or len(ops) > TRANSACTIONS_MAX or {s.target for s in steps} - set(ops):
        return None
    signs = {op: f"T{at}" for at, op in enumerate(ops, start=1)}
    name = clean(finding.details.get("anomaly", finding.invariant), limit=60)
    caption = f"{name}: each came before the next, and the last before the first"
    told = "; ".join(f"{signs[s.source]} {s.kind} {signs[s.target]}" for s in steps)
    ring = Ring(
        _size(len(ops)),
        _size(len(ops)) // (2 if len(ops) == PAIR else 1),
        tuple(_vertices(ops, signs, scene, finding)),
        tuple(_edges(steps, ops, signs)),
        finding.anchor("ring"),
        f"A ring of {len(ops)} transactions: {told}.",
    )
    return Picture(
        "cycle",
        caption,
        (ring, Notes(tuple(_transactions(ops, signs, scene, finding))), _reasons(steps, signs)),
    )


def _steps(value: Any) -> Iterator[_Step]:
    for item in value if isinstance(value, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        source, target = integer(item.get("from")), integer(item.get("to"))
        if source is not None and target is not None:
            kind, why = (
                clean(item.get("kind", "?"), limit=20),
                clean(item.get("why", ""), limit=400),
            )
            yield _Step(source, kind, target, why)


def _shortened(steps: Sequence[_Step]) -> list[_Step]:
    """One step for all that one process did in a row."""
    out: list[_Step] = []
    for step in steps:
        last = out[-1] if out else None
        if last is not None and last.kind == step.kind == "process" and last.target == step.source:
            out[-1] = _Step(last.source, "process", step.target, f"{last.why}; {step.why}")
        else:
            out.append(step)
    return out


def _size(count: int) -> int:
    return SIZE + MORE * max(0, count - EASY)


def _place(at: int, count: int) -> tuple[float, float]:
    """Tell where on the ring: the first on top, then clockwise; two lie side by side."""
    middle = _size(count) / 2
    if count == PAIR:
        return (MARGIN if at == 0 else SIZE - MARGIN), middle / 2
    turn = 2 * pi * at / count - pi / 2
    radius = middle - MARGIN
    return middle + radius * cos(turn), middle + radius * sin(turn)


def _vertices(
    ops: Sequence[int], signs: Mapping[int, str], scene: Scene, finding: Finding
) -> Iterator[Vertex]:
    for at, op in enumerate(ops):
        x, y = _place(at, len(ops))
        title = f"{signs[op]} is op {op}: {_words(op, scene)}"
        anchor = f"#{finding.anchor(signs[op])}"
        yield Vertex(round(x, 1), round(y, 1), signs[op], title, anchor)


def _edges(steps: Sequence[_Step], ops: Sequence[int], signs: Mapping[int, str]) -> Iterator[Edge]:
    for step in steps:
        one, other = (_place(ops.index(op), len(ops)) for op in (step.source, step.target))
        path, x, y = _curve(one, other, BEND if len(ops) <= EASY else 0.0)
        tone = step.kind if step.kind in _MEANS else "process"
        title = f"{signs[step.source]} before {signs[step.target]}: {step.why}"
        yield Edge(path, x, y, tone, step.kind, title)


def _curve(
    one: tuple[float, float], other: tuple[float, float], bend: float
) -> tuple[str, float, float]:
    """A way from rim to rim that bends to its left, and where its label stands."""
    (x1, y1), (x2, y2) = one, other
    bend_x, bend_y = (y2 - y1) * bend, (x1 - x2) * bend
    middle_x, middle_y = (x1 + x2) / 2 + bend_x, (y1 + y2) / 2 + bend_y
    begin = _toward((x1, y1), (middle_x, middle_y), CIRCLE)
    end = _toward((x2, y2), (middle_x, middle_y), CIRCLE + 2)
    path = f"M{begin[0]:.1f} {begin[1]:.1f}Q{middle_x:.1f} {middle_y:.1f} {end[0]:.1f} {end[1]:.1f}"
    label_x = (begin[0] + 2 * middle_x + end[0]) / 4
    label_y = (begin[1] + 2 * middle_y + end[1]) / 4
    return path, round(label_x, 1), round(label_y, 1)


def _toward(one: tuple[float, float], other: tuple[float, float], by: float) -> tuple[float, float]:
    length = hypot(other[0] - one[0], other[1] - one[1]) or 1.0
    share = by / length
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def _words(op: int, scene: Scene) -> str:
    span = scene.by_index.get(op)
    return "" if span is None else op_words(span)


def _transactions(
    ops: Sequence[int], signs: Mapping[int, str], scene: Scene, finding: Finding
) -> Iterator[Note]:
    for op in ops:
        span = scene.by_index.get(op)
        process = "" if span is None else f"process {clean(span.invocation.process, limit=40)}"
        time_ns = None if span is None else span.invocation.time_ns
        link, anchor = finding.op_link(op), finding.anchor(signs[op])
        text = f"op {op}: {_words(op, scene)}"
        yield Note(signs[op], "t-leader", text, time_ns, process, op, link, anchor)


def _reasons(steps: Sequence[_Step], signs: Mapping[int, str]) -> Notes:
    notes = []
    for step in steps:
        means = f" ({_MEANS[step.kind]})" if step.kind in _MEANS else ""
        text = f"{signs[step.source]} → {signs[step.target]} {step.kind}{means}: {step.why}"
        notes.append(Note("→", step.kind if step.kind in _MEANS else "t-quiet", text))
    return Notes(tuple(notes), "Why each came before the next")
