"""Draws the house: a floor for each top-level folder, its rooms, and the imports between them.

Every arrow runs down. Left out are those that a longer way along others says already, so that what
is left can be read. Equal trees give equal bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape

from tools.source import FLOORS, Graph, Tree, circles, graph, reduced

MARGIN: Final = 24.0
PAD: Final = 13.0  # of a floor, around its rooms
TITLE: Final = 130.0  # of a floor, for its name at the left
ROW_GAP: Final = 25.0
BOX_GAP: Final = 14.0
LANE: Final = 12.0  # what an arrow takes that passes a row
LINE: Final = 15.0
GLYPH: Final = 6.9  # of the letters of a room, at the font's size
FLOOR_GAP: Final = 34.0
WRAP: Final = 46  # letters on a line of a room that is of files
SWEEPS: Final = 24
WHAT: Final[Mapping[str, tuple[str, ...]]] = {
    "krucible": ("the command line",),
    "pipeline": ("Spark over", "many runs"),
    "reports": ("pages about runs",),
    "workloads": ("ops and clients",),
    "checkers": ("judgement",),
    "nemesis": ("faults",),
    "harness": ("runs, stores,", "environments,", "systems"),
    "node": ("the KRaft node",),
}
STYLE: Final = """
  text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2430 }
  .name { font-size: 15px; font-weight: 700 }
  .note { fill: #5a6675 }
  .paper { fill: #ffffff }
  .floor { fill: #f2f5f9; stroke: #c3ccd8 }
  .room { fill: #ffffff; stroke: #7a8aa0 }
  .files { fill: #e9eef5; stroke: #b3bfce }
  .way { fill: none; stroke: #66778d; stroke-width: 1.2; marker-end: url(#tip) }
  .stairs { fill: none; stroke: #2563a8; stroke-width: 2.2; marker-end: url(#big) }
  .ring { stroke: #c62828; stroke-width: 1.8 }
  .tip { fill: #66778d }
  .big { fill: #2563a8 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e9f0 }
    .note { fill: #9aa7b8 }
    .paper { fill: #0f141b }
    .floor { fill: #171e28; stroke: #3a4656 }
    .room { fill: #222c39; stroke: #7f90a6 }
    .files { fill: #1b2430; stroke: #4a586b }
    .way { stroke: #8fa0b5 }
    .stairs { stroke: #6aa9ea }
    .ring { stroke: #ff6b6b }
    .tip { fill: #8fa0b5 }
    .big { fill: #6aa9ea }
  }
"""


@dataclass(slots=True)
class Box:
    """A room, or the place where an arrow passes a row (then it has no lines)."""

    key: str
    lines: tuple[str, ...] = ()
    files: bool = False  # files beside the folders
    x: float = 0.0  # of its middle
    y: float = 0.0  # of its upper edge

    @property
    def width(self) -> float:
        """In pixels."""
        return 18 + GLYPH * 1.06 * max(map(len, self.lines)) if self.lines else LANE

    @property
    def height(self) -> float:
        """In pixels."""
        return 12 + LINE * len(self.lines)


@dataclass(slots=True)
class Floor:
    """A top-level folder, drawn from its own upper left corner."""

    root: str
    boxes: list[Box] = field(default_factory=list)
    ways: list[tuple[tuple[Box, ...], bool]] = field(default_factory=list)  # and if in a circle
    width: float = 0.0
    height: float = 0.0


def picture(tree: Tree) -> str:
    """The house as SVG."""
    floors = {root: _floor(tree, root) for row in FLOORS for root in row if root in tree.modules}
    rows = [[floors[root] for root in row if root in floors] for row in FLOORS]
    rows = [row for row in rows if row]
    wide = max(sum(f.width for f in row) + FLOOR_GAP * (len(row) - 1) for row in rows)
    out: list[str] = []
    place: dict[str, tuple[float, float, float, float]] = {}
    y = MARGIN
    for row in rows:
        spare = wide - sum(f.width for f in row) - FLOOR_GAP * (len(row) - 1)
        tall = max(f.height for f in row)
        x = MARGIN
        for floor in row:
            width = floor.width + spare * floor.width / sum(f.width for f in row)
            place[floor.root] = (x, y, width, tall)
            out += _drawn(floor, x, y, width, tall)
            x += width + FLOOR_GAP
        y += tall + FLOOR_GAP
    stairs, right = _stairs(tree, place, MARGIN + wide)
    whole_x, whole_y = right + MARGIN, y - FLOOR_GAP + MARGIN
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
            f'  viewBox="0 0 {_n(whole_x)} {_n(whole_y)}"',
            '  aria-label="The folders of krucible and the imports between them">',
            "<!-- Made by `python -m tools.house draw`; do not edit. -->",
            f"<style>{STYLE}</style>",
            "<defs>",
            *(_tip(name, size) for name, size in (("tip", 7), ("big", 11))),
            "</defs>",
            f'<rect class="paper" width="{_n(whole_x)}" height="{_n(whole_y)}"/>',
            *out,
            *stairs,
            "</svg>\n",
        ]
    )


def _tip(name: str, size: int) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{size}" '
        f'markerHeight="{size}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="{name}" d="M0 0L10 5L0 10z"/></marker>'
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# --------------------------------------------------------------------------- rooms of a floor


def _floor(tree: Tree, root: str) -> Floor:
    names = {".".join(name.split(".")[:2]) for name in tree.modules} - {root}
    names = {name for name in names if name.startswith(f"{root}.")}
    pairs = [
        (a, b)
        for each in tree.imports
        if (a := ".".join(each.source.split(".")[:2])) in names
        and (b := ".".join(each.target.split(".")[:2])) in names
    ]
    arrows = graph(names, pairs)
    ring = {name for group in circles(arrows) for name in group}
    level = _levels(arrows)
    groups: dict[str, str] = {}  # a folder is a room of its own, files of one level share one
    members: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        folder = tree.modules[name].package if name in tree.modules else True
        alone = folder or name in ring
        groups[name] = name if alone else f"{root}:{level[name]}"
        members[groups[name]].append(name)
    boxes = {key: _box(tree, key, inside) for key, inside in sorted(members.items())}
    merged = graph(boxes, ((groups[a], groups[b]) for a, b in pairs))
    ringed = {frozenset(group) for group in circles(merged)}
    floor = Floor(root)
    _lay_out(floor, boxes, reduced(merged), _levels(merged), ringed)
    return floor


def _box(tree: Tree, key: str, inside: Sequence[str]) -> Box:
    if ":" not in key:
        return Box(key, (key.partition(".")[2],), files=not tree.modules[key].package)
    names = [name.partition(".")[2] for name in inside]
    lines = [""]
    for n, name in enumerate(names):
        text = name + (", " if n + 1 < len(names) else "")
        if lines[-1] and len(lines[-1] + text) > WRAP:
            lines.append("")
        lines[-1] += text
    return Box(key, tuple(line.rstrip() for line in lines), files=True)


def _levels(arrows: Graph) -> dict[str, int]:
    """The length of the longest way down from each; those of a circle are on one level."""
    ring = {name: group for group in circles(arrows) for name in group}
    level: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in level:
            group = ring.get(name, (name,))
            below = {b for a in group for b in arrows[a]} - set(group)
            height = 1 + max(map(of, sorted(below)), default=-1)
            level.update(dict.fromkeys(group, height))
        return level[name]

    for name in sorted(arrows):
        of(name)
    return level


# --------------------------------------------------------------------------- layout of a floor


def _lay_out(
    floor: Floor,
    boxes: Mapping[str, Box],
    arrows: Graph,
    level: Mapping[str, int],
    rings: set[frozenset[str]],
) -> None:
    """Rows by level; in a row the order that lets arrows cross least (Sugiyama et al. 1981)."""
    rows: list[list[Box]] = [[] for _ in range(1 + max(level.values(), default=0))]
    for key in sorted(boxes):
        rows[level[key]].append(boxes[key])
    links: list[tuple[Box, Box]] = []
    for source in sorted(arrows):
        for target in sorted(arrows[source]):
            inside = any({source, target} <= ring for ring in rings)
            way = [boxes[source]]
            for passed in range(level[source] - 1, level[target], -1):
                way.append(Box(f"{source}>{target}@{passed}"))
                rows[passed].append(way[-1])
            way.append(boxes[target])
            if not inside:
                links += pairwise(way)
            floor.ways.append((tuple(way), inside))
    _order(rows, links)
    _place(rows, links)
    left = min(box.x - box.width / 2 for row in rows for box in row)
    y = PAD
    for row in reversed(rows):
        tall = max((box.height for box in row if box.lines), default=LINE)
        for box in row:
            box.x += TITLE - left
            box.y = y + (tall - box.height) / 2 if box.lines else y
        y += tall + ROW_GAP
    floor.boxes = [box for row in reversed(rows) for box in row if box.lines]
    floor.width = PAD + max(box.x + box.width / 2 for row in rows for box in row)
    floor.height = y - ROW_GAP + PAD


def _order(rows: Sequence[list[Box]], links: Iterable[tuple[Box, Box]]) -> None:
    near: dict[int, list[Box]] = defaultdict(list)
    for a, b in links:
        near[id(a)].append(b)
        near[id(b)].append(a)
    best, least = [list(row) for row in rows], _crossings(rows, near)
    for sweep in range(SWEEPS):
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for n in order:
            beside = rows[n - 1] if sweep % 2 == 0 else rows[n + 1]
            at = {id(box): k / max(1, len(beside) - 1) for k, box in enumerate(beside)}
            now = {id(box): k / max(1, len(rows[n]) - 1) for k, box in enumerate(rows[n])}

            def middle(
                box: Box, at: dict[int, float] = at, now: dict[int, float] = now
            ) -> tuple[float, str]:
                places = [at[id(other)] for other in near[id(box)] if id(other) in at]
                return (sum(places) / len(places) if places else now[id(box)], box.key)

            rows[n].sort(key=middle)
        found = _crossings(rows, near)
        if found < least:
            best, least = [list(row) for row in rows], found
    for row, kept in zip(rows, best, strict=True):
        row[:] = kept


def _crossings(rows: Sequence[Sequence[Box]], near: Mapping[int, Sequence[Box]]) -> int:
    count = 0
    for lower, upper in pairwise(rows):
        at = {id(box): k for k, box in enumerate(lower)}
        ends = [at[id(o)] for box in upper for o in _sorted(near.get(id(box), ()), at)]
        count += sum(a > b for k, a in enumerate(ends) for b in ends[k + 1 :])
    return count


def _sorted(boxes: Iterable[Box], at: Mapping[int, int]) -> list[Box]:
    return sorted((box for box in boxes if id(box) in at), key=lambda box: at[id(box)])


def _place(rows: Sequence[Sequence[Box]], links: Iterable[tuple[Box, Box]]) -> None:
    """Each box as near to the middle of its neighbours as the others in its row leave room for."""
    near: dict[int, list[Box]] = defaultdict(list)
    for a, b in links:
        near[id(a)].append(b)
        near[id(b)].append(a)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [
                sum(o.x for o in near[id(box)]) / len(near[id(box)]) if near[id(box)] else box.x
                for box in row
            ]
            _spread(row, wanted)


def _spread(row: Sequence[Box], wanted: Sequence[float]) -> None:
    """The places nearest to the wanted ones that keep order and distance (pooled violators)."""
    shift, shifts = 0.0, []
    for n, box in enumerate(row):
        if n:
            shift += (row[n - 1].width + box.width) / 2 + BOX_GAP
        shifts.append(shift)
    pools: list[tuple[float, int]] = []  # sum, count
    for want, shift in zip(wanted, shifts, strict=True):
        pools.append((want - shift, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [(a + b, m + n)]
    places = [total / count for total, count in pools for _ in range(count)]
    for box, base, shift in zip(row, places, shifts, strict=True):
        box.x = round(base + shift, 3)


# --------------------------------------------------------------------------- ink


def _drawn(floor: Floor, x: float, y: float, width: float, height: float) -> list[str]:
    """A floor at its place."""
    inset = (width - floor.width) / 2  # of its rooms
    title = f'<tspan class="name">{escape(floor.root)}/</tspan>'
    notes = "".join(
        f'<tspan class="note" x="{_n(x + PAD)}" dy="16">{escape(line)}</tspan>'
        for line in WHAT.get(floor.root, ())
    )
    out = [
        f'<rect class="floor" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" rx="8"',
        f'  height="{_n(height)}"/>',
        f'<text x="{_n(x + PAD)}" y="{_n(y + 23)}">{title}{notes}</text>',
        f'<g transform="translate({_n(x + inset)} {_n(y)})">',
    ]
    out += [_way(way, ring=ring) for way, ring in floor.ways]
    for box in floor.boxes:
        kind = "files" if box.files else "room"
        left = box.x - box.width / 2
        out.append(
            f'<rect class="{kind}" x="{_n(left)}" y="{_n(box.y)}" width="{_n(box.width)}" '
            f'height="{_n(box.height)}" rx="4"/>'
        )
        lines = "".join(
            f'<tspan x="{_n(box.x)}" y="{_n(box.y + 17 + LINE * n)}">{escape(line)}</tspan>'
            for n, line in enumerate(box.lines)
        )
        out.append(f'<text text-anchor="middle">{lines}</text>')
    return [*out, "</g>"]


def _way(way: Sequence[Box], *, ring: bool) -> str:
    """An arrow from the lower edge of the first box to the upper edge of the last."""
    start, end = way[0], way[-1]
    if ring:  # between boxes of one row, to and fro
        sign = 1 if start.x < end.x else -1
        y = start.y + start.height / 2 + 5 * sign
        path = f"M{_n(start.x + sign * start.width / 2)} {_n(y)}"
        path += f"H{_n(end.x - sign * end.width / 2)}"
        return f'<path class="way ring" d="{path}"/>'
    points = [(start.x, start.y + start.height)]
    points += [(box.x, box.y + LINE / 2) for box in way[1:-1]]
    points.append((end.x, end.y))
    path = f"M{_n(points[0][0])} {_n(points[0][1])}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{_n(x0)} {_n(middle)} {_n(x1)} {_n(middle)} {_n(x1)} {_n(y1)}"
    return f'<path class="way" d="{path}"/>'


def _stairs(
    tree: Tree, place: Mapping[str, tuple[float, float, float, float]], edge: float
) -> tuple[list[str], float]:
    """The arrows from floor to floor, and how far right they reach."""
    pairs = [(a.source.partition(".")[0], a.target.partition(".")[0]) for a in tree.imports]
    times = Counter((a, b) for a, b in pairs if a != b)
    arrows = reduced(graph(place, ((a, b) for a, b in times if a in place and b in place)))
    out: list[str] = []
    lane = edge
    arrived: Counter[str] = Counter()
    for source in place:
        x0, y0, w0, h0 = place[source]
        for target in sorted(arrows[source], key=list(place).index):
            x1, y1, w1, _ = place[target]
            label = f"{times[source, target]} imports"
            if abs(y1 - y0 - h0 - FLOOR_GAP) < 1:  # just below
                low, high = max(x0, x1), min(x0 + w0, x1 + w1)
                x = (low + high) / 2
                path = f"M{_n(x)} {_n(y0 + h0)}V{_n(y1)}"
                out.append(f'<text class="note" x="{_n(x + 10)}" y="{_n(y1 - 13)}">{label}</text>')
            else:
                lane += 22
                y_in = y1 - 13 - 7 * arrived[target]
                x_in = x1 + w1 - 28 - 18 * arrived[target]
                arrived[target] += 1
                path = f"M{_n(x0 + w0)} {_n(y0 + 14)}H{_n(lane)}V{_n(y_in)}H{_n(x_in)}V{_n(y1)}"
            out.append(f'<path class="stairs" d="{path}"><title>{label}</title></path>')
    return out, lane
