"""Judges by the committed log why a partition's leader epoch rises, or does not: C4.

Each rise has all followers begin anew, and all producers and consumers look for their leader again.
Source: ``PartitionChangeBuilder`` of Kafka (``triggerLeaderEpochBump...IfNeeded``); KAFKA-15021.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.invariants.granted import Partition, named
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.features import IBP_3_6_IV0, METADATA_VERSION
from node.metadata.image import MetadataImage
from node.metadata.state import NO_LEADER, PartitionState

C4 = "C4"


class EpochRises:
    """Judges that a leader epoch rises for a reason, and with each reason.

    Reasons are another leader, or none; a replica that is none any more, which has to hear of it;
    and, at metadata versions before 3.6-IV0, a broker that leaves the ISR. At those the epoch also
    rises when the last of an ISR, which stays in it, is fenced again while nobody leads; that
    disturbs nobody, and is not judged. Nor is an ISR that shrinks in a log without a level.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._before: PartitionState | None = None  # the partition that a record is about
        self._changed: list[tuple[Partition, PartitionState, PartitionState]] = []

    def record(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in a record of a batch, before it is applied to the image."""
        if isinstance(record, s.PartitionChangeRecord) and record.topic_id is not None:
            self._before = image.partition(record.topic_id, record.partition_id)

    def applied(self, record: s.MetadataRecord, image: MetadataImage) -> None:
        """Take in what a record has made of the image."""
        if not isinstance(record, s.PartitionChangeRecord) or record.topic_id is None:
            return
        partition = record.topic_id, record.partition_id
        after = image.partition(*partition)
        if self._before is not None and after is not None:
            self._changed.append((partition, self._before, after))

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        for partition, before, after in self._changed:
            is_old = image.metadata_version < IBP_3_6_IV0
            if is_old and before.leader == after.leader == NO_LEADER:
                continue
            if METADATA_VERSION not in image.features and not set(before.isr) <= set(after.isr):
                continue
            self.checked += 1
            why = _reason(before, after, is_old=is_old)
            rises = after.leader_epoch - before.leader_epoch
            if rises == (why is not None):
                continue
            where = f"partition {named(partition, image)} after offset {last}"
            what = f"the leader epoch rises by {rises}"
            reason = "nobody else leads and no replica goes" if why is None else why
            yield Anomaly(C4, f"{where}: {what}, though {reason}: {before} became {after}")
        self._changed.clear()


def _reason(before: PartitionState, after: PartitionState, *, is_old: bool) -> str | None:
    """Tell why the leader epoch has to rise by one; None: it must not."""
    if before.leader != after.leader:
        return f"{after.leader} leads in the place of {before.leader}"
    if gone := set(before.replicas) - set(after.replicas):
        return f"{sorted(gone)} are no replicas any more"
    if is_old and (out := set(before.isr) - set(after.isr)):
        return f"{sorted(out)} leave the ISR"
    return None
