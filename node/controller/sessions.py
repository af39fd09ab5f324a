"""The sessions of brokers, as far as the active controller has heard: soft state.

It begins anew with each reign, so that a broker that is dead is fenced late after a failover, and
none that is alive is fenced early. Source: Kafka's BrokerHeartbeatManager and
BrokerHeartbeatTracker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from node.controller.operations import PendingWrite
from node.metadata.image import BrokerState

SessionKey = tuple[int, int]  # (broker id, broker epoch)


@dataclass(slots=True)
class BrokerHeart:
    """The last news of a broker.

    ``registered``: the write that has amended its registration; ``shutdown``: the one after which
    it may stop. ``cleared``: it was taken out of all ISRs since it was unfenced, and not only
    ``cleanly``, but as one that may have lost its log.
    """

    metadata_offset: int = -1
    registered: PendingWrite | None = None
    shutdown: PendingWrite | None = None
    cleared: bool = False
    cleanly: bool = False

    def let_go_after(self, write: PendingWrite) -> None:
        """A write moves its partitions away: all have to know of that one, too."""
        self.shutdown = write


class Sessions:
    """Contact times by broker and epoch, and the state of heartbeats by broker."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._contact_ms: dict[SessionKey, int] = {}
        self._hearts: dict[int, BrokerHeart] = {}

    def restart(self, brokers: Iterable[BrokerState], now_ms: int) -> None:
        """Begin a reign: brokers in service count as heard of just now (KAFKA-18138)."""
        self.clear()
        for broker in brokers:
            if not broker.fenced:
                self._contact_ms[broker.id, broker.epoch] = now_ms

    def clear(self) -> None:
        """Forget everything."""
        self._contact_ms.clear()
        self._hearts.clear()

    # ------------------------------------------------------------------ contact

    def contact(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """A registered broker was heard of."""
        self._contact_ms[broker_id, epoch] = now_ms

    def is_valid(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Tell whether that incarnation of a broker has a session that has not expired."""
        contact_ms = self._contact_ms.get((broker_id, epoch))
        return contact_ms is not None and not self._expired(contact_ms, now_ms)

    def expired(self, now_ms: int) -> list[SessionKey]:
        """The sessions that have expired, the one silent the longest first."""
        found = [(ms, key) for key, ms in self._contact_ms.items() if self._expired(ms, now_ms)]
        return [key for _, key in sorted(found)]

    def silent_ms(self, key: SessionKey, now_ms: int) -> int:
        """Give how long ago a session that goes on was last heard from."""
        return now_ms - self._contact_ms[key]

    def end(self, key: SessionKey) -> None:
        """End that session."""
        self._contact_ms.pop(key, None)

    def _expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self.timeout_ms < now_ms

    # ------------------------------------------------------------------ heartbeats

    def heart(self, broker_id: int) -> BrokerHeart:
        """Give the last news of a registered broker."""
        return self._hearts.setdefault(broker_id, BrokerHeart())

    def forget(self, broker_id: int) -> None:
        """Another incarnation has registered, or none is registered any more."""
        self._hearts.pop(broker_id, None)

    def is_shutting_down(self, broker_id: int) -> bool:
        """Tell whether a broker is in the midst of a controlled shutdown."""
        heart = self._hearts.get(broker_id)
        return heart is not None and heart.shutdown is not None

    def active_offsets(self, brokers: Iterable[BrokerState]) -> dict[int, int]:
        """Give the metadata offset of each active broker, by id; -1 = it has not said."""
        return {
            broker.id: self.heart(broker.id).metadata_offset
            for broker in brokers
            if not broker.fenced and not self.is_shutting_down(broker.id)
        }
