"""Judges by the committed log why a partition's leader epoch rises, or does not: C4.

Each rise has all followers begin anew, and all producers and consumers look for their leader again.
Source: ``PartitionChangeBuilder`` of Kafka (``triggerLeaderEpochBump...IfNeeded``); KAFKA-15021.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.invariants.changes import Change
from checkers.invariants.granted import named
from harness.verdict import Anomaly
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
        self._changed: list[Change] = []

    def applied(self, change: Change) -> None:
        """Take in what a record has made of a partition."""
        self._changed.append(change)

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
