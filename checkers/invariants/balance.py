"""Follows in the committed log which partitions others lead than their first replicas.

An active controller looks every so often for such partitions, and elects the first replica where
that is in sync and in service. Source: KAFKA-13682;
``QuorumController.maybeBalancePartitionLeaders``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from checkers.invariants.disks import directory_of, has_disk
from checkers.invariants.granted import Partition, named
from checkers.invariants.lasting import OF_BROKERS
from harness.contracts.evidence import LogBatch
from harness.contracts.meaning import Meaning
from node.metadata.image import MetadataImage
from node.metadata.state import PartitionState

L14: Final = Meaning(
    "L14",
    title="leaders go back to preferred replicas",
    promise=(
        "While one controller is active, a partition is not led by another replica for longer than "
        "the balancing interval if its first replica is in sync and in service."
    ),
    why=(
        "After each restart of a broker its partitions are led by others. If they never go back, "
        "some brokers do all the work."
    ),
    source="KAFKA-13682; auto.leader.rebalance.enable; leader.imbalance.check.interval.seconds",
)
_OF_PARTITIONS: Final = frozenset({"PartitionRecord", "PartitionChangeRecord"})


@dataclass(slots=True)
class Stretch:
    """Where in the log a partition was led by another one, in one reign of a controller."""

    name: str
    state: PartitionState
    epoch: int
    begin: int  # offsets
    end: int


class Balance:
    """Finds the partitions that could be led by their first replica, and are not."""

    def __init__(self) -> None:
        self.over: list[Stretch] = []
        self._open: dict[Partition, Stretch] = {}
        self._epoch = -1

    @property
    def stretches(self) -> Sequence[Stretch]:
        """Give all that were seen, those that are not over at the end."""
        return [*self.over, *self._open.values()]

    def after(self, batch: LogBatch, image: MetadataImage) -> None:
        """Take in the image after a batch."""
        if batch.epoch != self._epoch:  # a new controller begins to count
            self._epoch = batch.epoch
            self._end_all()
            touched = set(image.imbalanced_partitions())
        elif batch.control:
            touched = set()
        elif any(each["type"] in OF_BROKERS for each in batch.records):
            touched = {*image.imbalanced_partitions(), *self._open}
        else:
            touched = set(_partitions(batch))
        for stretch in self._open.values():
            stretch.end = batch.last
        for partition in touched:
            self._look(partition, batch, image)

    def _look(self, partition: Partition, batch: LogBatch, image: MetadataImage) -> None:
        state = image.partition(*partition)
        if state is None or not _could_go_back(state, image):
            if (stretch := self._open.pop(partition, None)) is not None:
                self.over.append(stretch)
        elif partition not in self._open:
            name, last = named(partition, image), batch.last
            self._open[partition] = Stretch(name, state, batch.epoch, last, last)

    def _end_all(self) -> None:
        self.over += self._open.values()
        self._open = {}


def _partitions(batch: LogBatch) -> Iterator[Partition]:
    for each in batch.records:
        if each["type"] in _OF_PARTITIONS and each["fields"].get("topic_id") is not None:
            yield UUID(each["fields"]["topic_id"]), each["fields"]["partition_id"]


def _could_go_back(state: PartitionState, image: MetadataImage) -> bool:
    """Tell whether another one leads than the first replica, which could."""
    first = next(iter(state.replicas), None)
    if first is None or first == state.leader or first not in state.isr:
        return False
    broker = image.brokers.get(first)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    is_moving = bool(state.adding or state.removing)
    return not is_moving and has_disk(first, directory_of(first, state), image)
