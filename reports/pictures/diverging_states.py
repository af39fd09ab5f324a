"""States that differ: what a node had applied up to each offset, beside what another had there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reports.blocks import Cell, Columns, Picture, Row
from reports.cluster import Event
from reports.drawing.replay import word
from reports.drawing.scene import Scene
from reports.pictures import Finding, painter
from reports.text import integer, seconds

AROUND = 4
AFTER = 4
DIGEST_CHARS = 16
NOT_TOLD = ("not told",)
_KINDS = frozenset({"apply", "image"})
_FOLDED = re.compile(r"the committed log folds to ([0-9a-f]+)")
_States = dict[int, tuple[str, str]]  # digest and time by offset


@painter(20)
def diverging_states(finding: Finding, scene: Scene) -> Picture | None:
    """The states of the node at fault, and of the node that shared most offsets with it."""
    told = [event for event in finding.events if word(event, "t") in _KINDS]
    if not told:
        return None
    one = scene.owner(told[-1])
    mine = _states(one, told[-1], scene)
    other, theirs = _other(one, told[0], mine, scene)
    first = _first(mine, theirs)
    if first is None and (folded := _FOLDED.search(finding.message)) is not None:
        other, first = "committed log", integer(told[-1].get("off"))
        theirs = {} if first is None else {first: (folded[1][:DIGEST_CHARS], "folds to this")}
    if first is None or first not in mine or first not in theirs:
        return None
    rows = tuple(_rows(mine, theirs, first))
    caption = f"States differ at offset {first}: {one} and {other}"
    told_at = f"at {mine[first][1]} {one} has {mine[first][0]}, {other} has {theirs[first][0]}"
    view = Columns(
        (one, scene.link(one)),
        (other, scene.link(other)),
        rows,
        "offset",
        f"{caption}: {told_at}",
    )
    remark = "Each box is the digest of a node's state when it had applied all below that offset."
    return Picture("diverging-states", caption, (view,), (remark,))


def _digest(event: Event) -> str:
    return word(event, "st") or word(event, "digest")


def _states(node: str, like: Event, scene: Scene) -> _States:
    """Digest and time by offset, of the process of an event and by the same type of event."""
    out: _States = {}
    for event in scene.events(node):
        offset, digest = integer(event.get("off")), _digest(event)
        alike = word(event, "t") == word(like, "t") and event.get("inc") == like.get("inc")
        if alike and offset is not None and digest:
            out.setdefault(offset, (digest[:DIGEST_CHARS], seconds(event["rx_ns"])))
    return out


def _other(one: str, by: Event, mine: _States, scene: Scene) -> tuple[str, _States]:
    """The node that the finding compares with, else the one with most offsets in common."""
    found: list[tuple[bool, int, int, str, _States]] = []
    for at, node in enumerate(scene.nodes):
        if node == one:
            continue
        states: _States = {}
        for event in scene.events(node):
            offset, digest = integer(event.get("off")), _digest(event)
            if word(event, "t") in _KINDS and offset is not None and digest:
                states.setdefault(offset, (digest[:DIGEST_CHARS], seconds(event["rx_ns"])))
        named = node == scene.owner(by)
        found.append((named, len(states.keys() & mine.keys()), -at, node, states))
    if not found:
        return "", {}
    best = max(found, key=lambda item: item[:3])
    return best[3], best[4]


def _first(mine: _States, theirs: _States) -> int | None:
    both = sorted(mine.keys() & theirs.keys())
    return next((offset for offset in both if mine[offset][0] != theirs[offset][0]), None)


def _rows(mine: _States, theirs: _States, first: int) -> Iterator[Row]:
    both = mine.keys() & theirs.keys()
    shown: Sequence[int] = sorted(both if len(both) > 1 else mine)
    at = shown.index(first)
    for offset in shown[max(0, at - AROUND) : at + AFTER + 1]:
        left, right = mine[offset], theirs.get(offset, NOT_TOLD)
        relation = "first" if offset == first else "same" if left[:1] == right[:1] else "other"
        relation = "lone" if right is NOT_TOLD else relation
        yield Row(str(offset), Cell(left), Cell(right), relation)
