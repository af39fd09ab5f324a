"""Judges who stays eligible when an ISR gets too small: C14.

Source: KIP-966, part 1; ``PartitionChangeBuilder.maybePopulateTargetElr`` of Kafka 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.invariants.changes import Change
from checkers.invariants.disks import RECOVERING
from checkers.invariants.eligible import C14, MIN_ISR, is_enabled, min_isr
from checkers.invariants.granted import Partition, named
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.features import ELR_VERSION
from node.metadata.image import MetadataImage
from node.metadata.state import PartitionState

BY_THE_FIRST = ", where partition 0 of the topic has "  # in an anomaly's message
SET_TO_NOBODY = ", as the minimum that is set is 0"


class ShrinkGuard:
    """Judges that a broker which leaves an ISR becomes eligible if too few are left (KIP-966).

    Too few are left when the leader may acknowledge nothing more. A broker that has died is not
    eligible: it may have lost messages. Nobody is once a leader was chosen at the cost of messages.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._shrunk: list[tuple[Partition, PartitionState, PartitionState, int]] = []
        self._registered: set[int] = set()  # brokers of which a batch tells a new process
        self._is_open = False  # a batch changes how many must be in sync, or clears who is eligible

    def record(self, record: s.MetadataRecord) -> None:
        """Take in a record of a batch, before it is applied to the image."""
        match record:
            case s.RegisterBrokerRecord():
                self._registered.add(record.broker_id)
            case s.ClearElrRecord():
                self._is_open = True
            case s.ConfigRecord() if record.name == MIN_ISR:
                self._is_open = True
            case s.FeatureLevelRecord() if record.name == ELR_VERSION:
                self._is_open = True
            case _:
                pass

    def applied(self, change: Change, image: MetadataImage) -> None:
        """Take in what a record has made of a partition, and of the image."""
        partition, before, after = change
        if set(before.isr) <= set(after.isr):
            return
        enough = min(min_isr(partition, image) or 1, len(after.replicas))
        if len(after.isr) < enough:
            self._shrunk.append((partition, before, after, enough))

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        if is_enabled(image) and not self._is_open:
            for partition, before, after, enough in self._shrunk:
                yield from self._judge(partition, before, after, enough, image, last)
        self._shrunk.clear()
        self._registered.clear()
        self._is_open = False

    def _judge(
        self,
        partition: Partition,
        before: PartitionState,
        after: PartitionState,
        enough: int,
        image: MetadataImage,
        last: int,
    ) -> Iterator[Anomaly]:
        if after.recovery == RECOVERING and after.leader != before.leader:
            return
        self.checked += 1
        out = {*before.isr, *before.eligible_leaders} - {*after.isr, *after.eligible_leaders}
        left = sorted((out & set(after.replicas)) - self._registered)
        if not left:
            return
        where, first = named(partition, image), image.partition(partition[0], 0)
        why = ""
        if first is not None and len(first.replicas) < enough:
            why = f"{BY_THE_FIRST}{len(first.replicas)} replica(s)"
        elif min_isr(partition, image) == 0:
            why = SET_TO_NOBODY
        yield Anomaly(
            C14.name,
            f"partition {where} after offset {last} has {len(after.isr)} in sync and needs"
            f" {enough}, and of those who left brokers {left} are not eligible{why}: {after}",
            details={"topic": where, "brokers": left},
        )
