"""Follows in the committed log how long something was so in one reign of a controller.

``in_service`` gives the brokers in service: a broker comes into service when it is unfenced, and
stays until it is fenced, unregistered or registered anew. ``disks`` gives the disks that brokers
are known to have. Source: KIP-631 (fencing), KIP-858.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import UUID

from harness.contracts.evidence import LogBatch
from node.metadata.image import MetadataImage

OF_BROKERS: Final = frozenset(
    {
        *("RegisterBrokerRecord", "UnregisterBrokerRecord", "BrokerRegistrationChangeRecord"),
        *("FenceBrokerRecord", "UnfenceBrokerRecord"),
    }
)
Incarnation = tuple[int, int]  # broker id and epoch
Disk = tuple[int, int, UUID]  # of an incarnation
What = TypeVar("What", bound=Hashable)


@dataclass(slots=True)
class Lasting(Generic[What]):
    """Where in the log something was so, in one reign.

    After the batch that ends with offset ``begin`` it was, and still after the one of ``end``.
    """

    what: What
    epoch: int
    begin: int
    end: int


class OfBrokers(Generic[What]):
    """Finds how long things lasted that only records about brokers change.

    Args:
        now: Gives what is so, by an image.
    """

    def __init__(self, now: Callable[[MetadataImage], Set[What]]) -> None:
        self._now = now
        self._over: list[Lasting[What]] = []
        self._open: dict[What, Lasting[What]] = {}
        self._epoch = -1

    @property
    def found(self) -> Sequence[Lasting[What]]:
        """Give all that was seen, and what is not over at the end."""
        return [*self._over, *self._open.values()]

    def after(self, batch: LogBatch, image: MetadataImage) -> None:
        """Take in the image after a batch."""
        begins = batch.epoch != self._epoch
        if begins:
            self._epoch = batch.epoch
            self._over += self._open.values()
            self._open = {}
        of_brokers = not batch.control and any(each["type"] in OF_BROKERS for each in batch.records)
        if begins or of_brokers:
            self._look(batch, self._now(image))
        for each in self._open.values():
            each.end = batch.last

    def _look(self, batch: LogBatch, now: Set[What]) -> None:
        for key in [key for key in self._open if key not in now]:
            self._over.append(self._open.pop(key))
        for key in sorted(now - self._open.keys()):  # type: ignore[type-var] # tuples of one kind
            self._open[key] = Lasting(key, batch.epoch, batch.last, batch.last)


def in_service(image: MetadataImage) -> Set[Incarnation]:
    """Tell which brokers are in service."""
    return {(each.id, each.epoch) for each in image.brokers.values() if not each.fenced}


def disks(image: MetadataImage) -> Set[Disk]:
    """Tell which disks brokers are known to have, in service or not."""
    return {
        (each.id, each.epoch, disk)
        for each in image.brokers.values()
        for disk in each.log_dirs
        if disk is not None
    }
