"""Judges that it is remembered who led a partition last, as long as nobody leads it: C14.

Source: KIP-966, part 1 (last known leader); ``PartitionChangeBuilder.maybeUpdateLastKnownLeader``
of Kafka 4. It is elected when it comes back and nobody is in sync or eligible.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.invariants.changes import Change
from checkers.invariants.eligible import C14, is_enabled
from checkers.invariants.granted import named
from harness.kafka.incarnation import came_back_unclean
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.state import NO_LEADER

AS_BEFORE = ", as before that one led"  # in an anomaly: nobody had cleared it


class LastLeaderGuard:
    """Judges each change by which a partition loses its leader while eligible leaders count.

    A leader whose broker has died may be forgotten: it may have lost everything.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._lost: list[Change] = []
        self._died: set[int] = set()  # brokers that a batch tells of

    def record(self, record: s.MetadataRecord) -> None:
        """Take in a record of a batch, before it is applied to the image."""
        if isinstance(record, s.RegisterBrokerRecord) and came_back_unclean(record.incarnation_id):
            self._died.add(record.broker_id)

    def applied(self, change: Change, image: MetadataImage) -> None:
        """Take in what a record has made of a partition, and of the image."""
        lost = change.before.leader != NO_LEADER and change.after.leader == NO_LEADER
        if lost and is_enabled(image):
            self._lost.append(change)

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        for partition, before, after in self._lost:
            self.checked += 1
            known = after.last_known_leaders
            if known == (before.leader,) or (not known and before.leader in self._died):
                continue
            where = named(partition, image)
            stale = AS_BEFORE if known and known == before.last_known_leaders else ""
            yield Anomaly(
                C14.name,
                f"partition {where} after offset {last} has lost its leader {before.leader}, and"
                f" remembers {list(known) or 'nobody'} as the last one{stale}: {after}",
                details={"topic": where, "broker": before.leader},
            )
        self._lost.clear()
        self._died.clear()
