"""Two logs that differ: side by side around the first offset at which they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from checkers.replay.world import Batch, stored
from reports.blocks import Cell, Columns, Picture, Row
from reports.drawing.records import contents
from reports.drawing.replay import log_after
from reports.drawing.scene import Scene
from reports.pictures import Finding, painter
from reports.text import integer

AROUND = 4  # rows before the first difference
AFTER = 5  # and behind it
WORDS_MAX = 48
_ABOUT = frozenset({"S7", "S8", "S9", "S11"})
_FINAL = re.compile(r"\bfinal log of (\S+)")


@painter(20)
def diverging_logs(finding: Finding, scene: Scene) -> Picture | None:
    """The logs of the two nodes that the finding is about, as they were when it became visible."""
    if finding.invariant not in _ABOUT:
        return None
    sides = _sides(finding, scene)
    if sides is None:
        return None
    one, other = sides
    left, right = _log(one, finding, scene), _log(other, finding, scene)
    first = first_difference(left, right, integer(finding.details.get("offset")))
    if first is None:
        return None
    rows = tuple(_rows(left, right, first, scene))
    caption = f"The logs of {one} and {other} differ from offset {first} on"
    return Picture(
        "diverging-logs",
        caption,
        (
            Columns(
                (one, scene.link(one)),
                (other, scene.link(other)),
                rows,
                "offset",
                f"{caption}. {_said(rows)}",
            ),
        ),
        ("Each box is a batch: its epoch and checksum, and what is in it as far as a log tells.",),
    )


def _sides(finding: Finding, scene: Scene) -> tuple[str, str] | None:
    """The two nodes: those of the events, or those whose final logs are named."""
    named = [scene.owner(event) for event in finding.events]
    named += [name.strip(".,:;") for name in _FINAL.findall(finding.message)]
    known = [name for name in dict.fromkeys(named) if name in scene.tracks]
    return (known[0], known[1]) if len(known) > 1 else None


def _log(node: str, finding: Finding, scene: Scene) -> list[Batch]:
    """Give the node's log then by its trace; by its disk after the run, if that says nothing."""
    if not _FINAL.search(finding.message):
        times = [integer(event.get("rx_ns")) for event in finding.events]
        known = [time for time in times if time is not None]
        batches = log_after(scene.events(node), max(known, default=scene.end_ns)).batches
        if batches:
            return batches
    return [stored(batch) for batch in scene.log(node)]


def first_difference(left: Sequence[Batch], right: Sequence[Batch], near: int | None) -> int | None:
    """The first offset that both have, but not the same there; else where one of them ends.

    What only one of them has is no difference when it lies below the other's first batch.
    """
    bases = {batch.base: batch for batch in right}
    begin = max((log[0].base for log in (left, right) if log), default=0)
    differing = [
        batch.base
        for batch in left
        if batch.base >= begin and batch.base in bases and bases[batch.base] != batch
    ]
    if differing:
        return min(differing)
    if near is not None and (_at(left, near) is None) != (_at(right, near) is None):
        return near
    return None


def _at(log: Iterable[Batch], offset: int) -> Batch | None:
    return next((batch for batch in log if batch.base <= offset <= batch.last), None)


def _rows(left: Sequence[Batch], right: Sequence[Batch], first: int, scene: Scene) -> Iterator[Row]:
    """Batches by where they begin; above all that is the same."""
    one, other = ({batch.base: batch for batch in log} for log in (left, right))
    bases = sorted(one.keys() | other.keys())
    before = [base for base in bases if base < first][-AROUND:]
    behind = [base for base in bases if base >= first][: AFTER + 1]
    for base in [*before, *behind]:
        yield Row(
            str(base),
            _cell(one.get(base), scene),
            _cell(other.get(base), scene),
            _relation(base, first, one, other),
        )


def _relation(base: int, first: int, one: Mapping[int, Batch], other: Mapping[int, Batch]) -> str:
    if base == first:
        return "first"
    if base not in one or base not in other:
        return "lone"
    return "same" if one[base] == other[base] else "other"


def _cell(batch: Batch | None, scene: Scene) -> Cell:
    if batch is None:
        return Cell(())
    words = contents(batch, batch.base, scene)
    short = words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"
    lines = (f"e{batch.epoch} {batch.h:08x}", *([short] if short else []))
    return Cell(lines, f"{batch}" + (f": {words}" if words else ""))


def _said(rows: Sequence[Row]) -> str:
    """The rows that differ, for those who do not see them."""
    told = [
        f"offset {row.place}: {row.left.title or 'nothing'} and {row.right.title or 'nothing'}"
        for row in rows
        if row.relation in ("first", "other")
    ]
    return "; ".join(told[:3])
