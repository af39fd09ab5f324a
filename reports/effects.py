"""Finds what a fault really did: the nodes that were away, and how many at one time.

A fault aims at nodes; not all of them go away. A rolling restart ends one process at a time, and a
stranger, a slow link or a wrong clock ends none. So what counts is the evidence that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reports.text import clean, count, integer

ONE_BY_ONE: Final = frozenset({"rolling-restart"})
_UP = frozenset(  # what was seen of nodes that all go on
    {
        *("stranger", "odd request", "links", "shaped link"),
        *("wall clock", "steady clock", "strobe", "voters", "watch"),
    }
)


@dataclass(frozen=True, slots=True)
class Effect:
    """The nodes that were away at some time, and how many at once; ``words`` says it shortly."""

    away: tuple[str, ...]
    at_once: int
    words: str


def effect(
    nemesis: str, targets: Sequence[str], seen: Any, healed: Any, nodes: Sequence[str] = ()
) -> Effect:
    """Read the evidence of an installed fault.

    Args:
        nemesis: The kind of fault.
        targets: At whom it aimed.
        seen: The evidence of the injection; foreign data.
        healed: The evidence of the heal; foreign data.
        nodes: All nodes of the run, through which two others may still talk.
    """
    items = [item for item in _listed(seen) if isinstance(item, Mapping)]
    saw = {clean(item.get("saw", ""), limit=40) for item in items}
    if nemesis in ONE_BY_ONE:
        return _one_by_one(targets, healed)
    cut = next((item["cut"] for item in items if isinstance(item.get("cut"), list)), None)
    if cut is not None:
        away = cut_off(cut, nodes)
        return Effect(away, len(away), f"{count(len(away), 'node')} cut off" if away else "no node")
    if saw & _UP:
        return Effect((), 0, f"{count(len(targets), 'node')}, all stay up")
    return Effect(tuple(targets), len(targets), count(len(targets), "node"))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _one_by_one(targets: Sequence[str], healed: Any) -> Effect:
    """The first so many of the targets, as many as the heal says; one when it says nothing."""
    told = integer(healed.get("cycles")) if isinstance(healed, Mapping) else None
    away = tuple(targets[: max(1, told or 1)])
    more = ", one at a time" if len(away) > 1 else ""
    return Effect(away, min(1, len(away)), count(len(away), "node") + more)


def cut_off(links: Iterable[Any], others: Iterable[str] = ()) -> tuple[str, ...]:
    """The nodes outside of the largest group that still talks both ways; links are (from, to)."""
    cut = {
        (clean(link[0], limit=60), clean(link[1], limit=60))
        for link in links
        if isinstance(link, list | tuple) and len(link) == 2  # noqa: PLR2004
    }
    nodes = sorted({*others, *(name for link in cut for name in link)})
    largest: set[str] = set()
    for first in nodes:
        group = _group(first, nodes, cut)
        largest = max(largest, group, key=len)
    return tuple(name for name in nodes if name not in largest)


def _group(first: str, nodes: Sequence[str], cut: set[tuple[str, str]]) -> set[str]:
    """Find the nodes that a node reaches over links that are whole both ways."""
    found, open_ = {first}, [first]
    while open_:
        here = open_.pop()
        for name in nodes:
            if name not in found and not {(here, name), (name, here)} & cut:
                found.add(name)
                open_.append(name)
    return found
