"""Judges who is chosen to lead a partition: C14.

A leader that may go on does, unless the first replica is to lead. Else the first in the order of
assignment leads who may. Source: KIP-455 (replicas are in the order of preference);
``PartitionChangeBuilder.electAnyLeader`` and ``electPreferredLeader`` of Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from checkers.invariants.changes import Change
from checkers.invariants.eligible import C14, may_lead
from checkers.invariants.granted import named
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.state import NO_LEADER, PartitionState


class LeaderChoice:
    """Judges each change by which another replica leads.

    Brokers of which the same batch tells something count as ones that may not.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._chosen: list[Change] = []
        self._told: set[int] = set()  # brokers of which a batch tells something

    def record(self, record: s.MetadataRecord) -> None:
        """Take in a record of a batch, before it is applied to the image."""
        match record:
            case s.FenceBrokerRecord() | s.UnfenceBrokerRecord():
                self._told.add(record.id)
            case (
                s.RegisterBrokerRecord()
                | s.BrokerRegistrationChangeRecord()
                | s.UnregisterBrokerRecord()
            ):
                self._told.add(record.broker_id)
            case _:
                pass

    def applied(self, change: Change) -> None:
        """Take in what a record has made of a partition."""
        if change.after.leader not in (NO_LEADER, change.before.leader):
            self._chosen.append(change)

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        for partition, before, after in self._chosen:
            if after.leader not in after.replicas:
                continue  # C3 tells of that
            self.checked += 1
            place = after.replicas.index(after.leader)
            better = after.replicas[:place]
            if place > 0 and before.leader in after.replicas[place:]:
                better = (*better, before.leader)  # it would have gone on
            might = _candidates(before, after)
            for replica in better:
                is_certain = replica in might and replica not in self._told
                if is_certain and may_lead(replica, after, image):
                    where = named(partition, image)
                    yield Anomaly(
                        C14.name,
                        f"partition {where} after offset {last} is led by {after.leader} and no"
                        f" more by {before.leader}, though {replica} might lead it and comes first:"
                        f" {before} became {after}",
                        details={"topic": where, "broker": replica},
                    )
                    break
        self._chosen.clear()
        self._told.clear()


def _candidates(before: PartitionState, after: PartitionState) -> Collection[int]:
    """Tell who might have been chosen: the ISR, or who is eligible where that was empty."""
    from_eligible = after.isr == (after.leader,) and after.leader not in before.isr
    return before.eligible_leaders if from_eligible else after.isr
