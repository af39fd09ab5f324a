"""Follows in the committed log which brokers are in service, and in whose reign.

A broker is in service from its unfencing on until it is fenced, forgotten or registered anew.
Source: KIP-631 (fencing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.contracts.evidence import LogBatch
from node.metadata.image import MetadataImage

OF_BROKERS: Final = frozenset(
    {
        *("RegisterBrokerRecord", "UnregisterBrokerRecord", "BrokerRegistrationChangeRecord"),
        *("FenceBrokerRecord", "UnfenceBrokerRecord"),
    }
)


@dataclass(slots=True)
class InService:
    """Where in the log an incarnation of a broker was in service, in one reign of a controller.

    After the batch that ends with offset ``begin`` it was, and still after the one of ``end``.
    """

    broker: int
    broker_epoch: int
    epoch: int
    begin: int
    end: int


class Services:
    """Finds the times in service of all brokers."""

    def __init__(self) -> None:
        self._over: list[InService] = []
        self._open: dict[tuple[int, int], InService] = {}
        self._epoch = -1

    @property
    def found(self) -> Sequence[InService]:
        """Give all that were seen, those that are not over at the end."""
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
            self._look(batch, image)
        for service in self._open.values():
            service.end = batch.last

    def _look(self, batch: LogBatch, image: MetadataImage) -> None:
        now = {(each.id, each.epoch) for each in image.brokers.values() if not each.fenced}
        for key in [key for key in self._open if key not in now]:
            self._over.append(self._open.pop(key))
        for key in sorted(now - self._open.keys()):
            self._open[key] = InService(*key, batch.epoch, batch.last, batch.last)
