"""Judges that candidates who have lost do not all wait for the same time.

Two that stand at the same moment stand together again after equal waits, and neither wins.
Source: Raft 5.2; KIP-595 (``controller.quorum.election.backoff.max.ms``); KAFKA-18345.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from checkers.invariants.patience import Patience
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

# By chance: once in millions, where a wait has a random part of some fifty ms.
SAME_MAX: Final = 4


class Backoffs(Invariant):
    """L9: a candidate that loses again and again does not wait five times for the same time."""

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role")

    def __init__(self) -> None:
        super().__init__()
        self._waits: dict[int, list[int]] = {}  # of a node, one like the other, the last ones

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare the wait with those before it, in the same life of the node."""
        del world
        node, wait_ms = event["node"], event.get("backoff_ms")
        if event["t"] == "start" or event["to"] in ("leader", "follower"):
            self._waits.pop(node, None)
        if not isinstance(wait_ms, int):
            return
        self.checked += 1
        same = self._waits.setdefault(node, [])
        if same and same[-1] != wait_ms:
            same.clear()
        same.append(wait_ms)
        if len(same) == SAME_MAX + 1:
            yield self._anomaly(
                f"n{node} lost {len(same)} elections in a row and waited exactly {wait_ms} ms after"
                f" each, up to epoch {event['ep']} ({label(event)})",
                event,
                epoch=event["ep"],
                wait_ms=wait_ms,
            )
