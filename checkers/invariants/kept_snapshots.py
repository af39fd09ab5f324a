"""Judges which snapshots a node makes, deletes and finds.

Source: KIP-630; Kafka 4.1 ``KafkaRaftLog.createNewSnapshot`` and ``maybeClean``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.snapshots import SnapshotAtLogStart, SnapshotInstall, SnapshotValidity
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label, snapshots_of
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class NewerSnapshots(Invariant):
    """S22: a node makes a snapshot only where the log still is, and beyond those that it made."""

    name: ClassVar[str] = "S22"
    meaning: ClassVar[Meaning] = SnapshotValidity.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "snap")

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[ReplicaId, int] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the end of a new snapshot with those before it."""
        replica = world.replica(event)
        if event["t"] == "start":
            self._newest[replica.id] = max(snapshots_of(event), default=0)
            return ()
        if event["op"] != "freeze":
            return ()
        end, newest = event["id"][0], self._newest.get(replica.id, 0)
        self._newest[replica.id] = max(end, newest)
        if not replica.known:
            return ()
        self.checked += 1
        if end > newest:
            return ()
        return [
            self._anomaly(
                f"{replica.id} made a snapshot that ends at {end} ({label(event)}), and had one"
                f" that ends at {newest}",
                event,
                id=list(event["id"]),
            )
        ]


class NewestKept(Invariant):
    """S23: a node deletes a snapshot only when it has a newer one."""

    name: ClassVar[str] = "S23"
    meaning: ClassVar[Meaning] = SnapshotAtLogStart.meaning
    listens: ClassVar[tuple[str, ...]] = ("snap",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look for a newer one among those that are left."""
        replica = world.replica(event)
        if event["op"] != "delete" or not replica.known:
            return ()
        self.checked += 1
        end = event["id"][0]
        if any(other > end for other in replica.snapshots):
            return ()
        return [
            self._anomaly(
                f"{replica.id} deleted the snapshot that ends at {end} ({label(event)}) and has"
                " none that is newer",
                event,
                id=list(event["id"]),
            )
        ]


class ReachedSnapshot(Invariant):
    """S24: a process starts with a log that reaches to the end of its newest snapshot.

    A crash between the name of an installed snapshot and the new beginning of the log is mended.
    """

    name: ClassVar[str] = "S24"
    meaning: ClassVar[Meaning] = SnapshotInstall.meaning
    listens: ClassVar[tuple[str, ...]] = ("start",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the log end with the snapshots that are there."""
        del world
        newest = max(snapshots_of(event), default=0)
        if not newest:
            return ()
        self.checked += 1
        if newest <= event["leo"]:
            return ()
        return [
            self._anomaly(
                f"n{event['node']} started with a log that ends at {event['leo']}"
                f" ({label(event)}), and a snapshot that ends at {newest}",
                event,
            )
        ]
