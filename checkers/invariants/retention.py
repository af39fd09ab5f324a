"""Judges that a node deletes a snapshot, and the log before it, only when its settings say so.

Source: KIP-630 "When to delete snapshots" (metadata.max.retention.bytes and .ms); Kafka 4.1
``KafkaRaftLog.maybeClean``: log and snapshots are larger, or the oldest snapshot is older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from checkers.invariants.snapshots import SnapshotAtLogStart
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

BYTES_SETTING: Final = "metadata.max.retention.bytes"
MS_SETTING: Final = "metadata.max.retention.ms"
BYTES: Final = 100 * 1024 * 1024  # where that is not set
MS: Final = 7 * 24 * 60 * 60 * 1000


class KeptInTime(Invariant):
    """S23: a snapshot goes when log and snapshots are larger, or it is older, than they may be."""

    name: ClassVar[str] = "S23"
    meaning: ClassVar[Meaning] = SnapshotAtLogStart.meaning
    listens: ClassVar[tuple[str, ...]] = ("snap",)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Make the invariant with the limits that the settings give nodes."""
        return cls(int(settings.get(BYTES_SETTING, BYTES)), int(settings.get(MS_SETTING, MS)))

    def __init__(self, max_bytes: int = BYTES, max_ms: int = MS) -> None:
        super().__init__()
        self._max_bytes, self._max_ms = max_bytes, max_ms

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what there was, and how old it was, with the limits; negative ones are none."""
        held, age_ms = event.get("held"), event.get("age_ms")
        if event["op"] != "delete" or not isinstance(held, int) or not isinstance(age_ms, int):
            return ()
        self.checked += 1
        if 0 <= self._max_bytes < held or 0 <= self._max_ms < age_ms:
            return ()
        return [
            self._anomaly(
                f"{world.replica(event).id} deleted the snapshot that ends at {event['id'][0]}"
                f" ({label(event)}), and had no reason: log and snapshots had {held} bytes of"
                f" {self._max_bytes}, and it was {age_ms} ms old, of {self._max_ms}",
                event,
                id=list(event["id"]),
            )
        ]
