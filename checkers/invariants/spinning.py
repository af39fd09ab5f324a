"""Judges that a node which waits for something does wait, in the place of asking without end.

Source: KAFKA-17751 and KAFKA-19605 (a poll with a timeout of 0, again and again).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from checkers.invariants.liveness import L12
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class Spinning(Invariant):
    """L12: a node does not poll again and again at once though nothing comes of it."""

    name: ClassVar[str] = L12.name
    meaning: ClassVar[Meaning] = L12
    listens: ClassVar[tuple[str, ...]] = ("spin",)

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Tell of each time that a node told that it did."""
        del world
        self.checked += 1
        yield self._anomaly(
            f"n{event['node']} polled without a pause as {event['as']}, for the {event['n']}th time"
            f" in a row, in epoch {event['ep']} ({label(event)})",
            event,
            epoch=event["ep"],
        )
