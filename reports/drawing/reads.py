"""Reads that a leader answered: who had fetched from it after it was asked, and who had not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.cluster import Event
from reports.drawing.replay import word
from reports.drawing.scene import Scene
from reports.text import integer

HEARD = frozenset({"ok", "diverging", "snapshot"})  # answers to a voter in the leader's own epoch


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Fetches around a read: the newest of each voter before it was asked for, and since."""

    asked_ns: int
    before: tuple[tuple[str, int], ...]  # voter, time
    since: tuple[tuple[str, int], ...]

    @property
    def needed(self) -> int:
        """Count the others that make a majority together with the leader."""
        return (len(self.before) + len(self.since) + 1) // 2


def confirmation(read: Event, node: str, scene: Scene) -> Confirmation | None:
    """Find who confirmed that the node leads; None when the event lacks when it was asked."""
    asked, told = integer(read.get("asked")), integer(read.get("seq"))
    if asked is None or told is None:
        return None
    before: dict[str, int] = {}
    since: dict[str, int] = {}
    asked_ns = integer(read.get("rx_ns")) or 0
    for event in _own(read, node, scene):
        seq, at = integer(event.get("seq")), integer(event.get("rx_ns"))
        if seq is None or at is None or seq > told:
            continue
        if seq <= asked:
            asked_ns = at
        if word(event, "t") == "fetch_rx" and word(event, "res") in HEARD:
            (before if seq <= asked else since)[scene.name(event.get("from"))] = at
    others = [name for name in scene.voters if name != node]
    return Confirmation(
        asked_ns,
        tuple((name, before.get(name, 0)) for name in others if name not in since),
        tuple((name, since[name]) for name in others if name in since),
    )


def _own(read: Event, node: str, scene: Scene) -> Iterator[Event]:
    """Keep the events of the same process."""
    for event in scene.raw(node):
        if event.get("inc") == read.get("inc"):
            yield event


def answered_reads(scene: Scene, first_ns: int, last_ns: int) -> Sequence[tuple[str, Event]]:
    """The reads that leaders answered in a window."""
    return [
        (node, event)
        for node, event in scene.told(frozenset({"read"}))
        if first_ns <= event["rx_ns"] <= last_ns
    ]
