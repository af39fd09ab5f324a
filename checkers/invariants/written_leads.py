"""A reign is on disk before its first record.

Source: Kafka 4.1 ``QuorumState.transitionToLeader``: the election state with the new leader is
written before the leader appends anything. Who is restarted knows by that file that it led the
epoch, and that its log may lack what others have of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.candidates import NoResumedReign
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class WrittenLead(Invariant):
    """S26: who writes a record of an epoch has it on disk that it leads that epoch."""

    name: ClassVar[str] = "S26"
    meaning: ClassVar[Meaning] = NoResumedReign.meaning
    listens: ClassVar[tuple[str, ...]] = ("append",)
    uses: ClassVar[tuple[str, ...]] = ("qs",)

    def __init__(self) -> None:
        super().__init__()
        self._judged: dict[ReplicaId, int] = {}  # the epoch whose first record was looked at

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the first record of a reign with the disk."""
        if event["src"] != "leader":
            return ()
        replica, epoch = world.here, event["bep"]
        if self._judged.get(replica.id) == epoch:
            return ()
        self._judged[replica.id] = epoch
        disk = replica.quorum
        if disk is None or not replica.known:
            return ()
        self.checked += 1
        if (disk.epoch, disk.leader) == (epoch, event["node"]):
            return ()
        return [
            self._anomaly(
                f"{replica.id} wrote as the leader of epoch {epoch} ({label(event)}) before that"
                f" was on its disk, which had {disk}",
                event,
                epoch=epoch,
            )
        ]
