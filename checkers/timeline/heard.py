"""When a node was last heard of: of one that has ended, about when it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

DAMAGE: Final = "disk"  # the event in which a fault, not the node, says that the disk has changed


def last_heard_ns(events: Iterable[Mapping[str, Any]]) -> int | None:
    """Give the time of a node's last event, on the clock of the history; None: it told nothing."""
    at_ns = None
    for event in events:
        if event.get("t") != DAMAGE:
            at_ns = event.get("rx_ns")
    return at_ns if isinstance(at_ns, int) else None
