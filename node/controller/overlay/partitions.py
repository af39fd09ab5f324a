"""Pending partitions, and an index of them by broker.

Source: Kafka's BrokersToIsrs and BrokersToElrs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from uuid import UUID

from node.controller.operations import PendingWrite
from node.controller.overlay.map import Journal, OverlayMap
from node.metadata.fold import without_elr
from node.metadata.image import NO_LEADER, MetadataImage, PartitionState

PartitionKey = tuple[UUID, int]
Entry = tuple[PendingWrite, PartitionState | None]


class PartitionMap(OverlayMap[PartitionKey, PartitionState]):
    """Partitions by (topic id, index).

    ``gone`` tells topics that count no more as committed, ``cleared`` those whose committed
    eligible leaders do not.

    Its walks are sorted. Each takes the partitions that were of its kind at its first look, and are
    still when their turn comes. So a walk may take its time while partitions change.
    """

    def __init__(
        self,
        journal: Journal,
        image: MetadataImage,
        gone: Callable[[UUID], bool],
        cleared: Callable[[UUID], bool],
    ) -> None:
        super().__init__(journal, self._committed_state)
        self._image = image
        self._gone = gone
        self._cleared = cleared
        self._isr: dict[int, set[PartitionKey]] = {}
        self._elr: dict[int, set[PartitionKey]] = {}
        self._led: dict[int, set[PartitionKey]] = {}

    def with_isr(self, broker_id: int) -> Iterator[PartitionKey]:
        """List the partitions that have the broker in their ISR."""
        return self._walk(
            self._image.isr_partitions(broker_id),
            self._isr.get(broker_id),
            lambda state: broker_id in state.isr,
        )

    def with_elr(self, broker_id: int) -> Iterator[PartitionKey]:
        """List the partitions that have the broker as an eligible leader (KIP-966)."""
        return self._walk(
            self._image.elr_partitions(broker_id),
            self._elr.get(broker_id),
            lambda state: broker_id in state.eligible_leaders,
        )

    def leaderless(self) -> Iterator[PartitionKey]:
        """List the partitions that have no leader."""
        return self._walk(
            self._image.leaderless_partitions(),
            self._led.get(NO_LEADER),
            lambda state: state.leader == NO_LEADER,
        )

    def imbalanced(self) -> Iterator[PartitionKey]:
        """List the partitions whose leader is not their first replica."""
        return self._walk(
            self._image.imbalanced_partitions(),
            set(self.pending_imbalanced()),
            _is_imbalanced,
        )

    def pending_imbalanced(self) -> list[PartitionKey]:
        """List the pending ones whose leader is not their first replica."""
        return [key for key, state in self.items() if state is not None and _is_imbalanced(state)]

    def pending_leaderless(self) -> list[PartitionKey]:
        """List the pending ones that have no leader."""
        return list(self._led.get(NO_LEADER, ()))

    def reader(self, topic_id: UUID) -> Callable[[int], PartitionState | None]:
        """Look up partitions of a live topic by their index, as long as no topic comes or goes.

        It does what ``get`` does, in less time.
        """
        entries, committed, cleared = self._entries, self._image.partition, self._cleared(topic_id)

        def get(index: int) -> PartitionState | None:
            entry = entries.get((topic_id, index)) if entries else None
            if entry is not None:
                return entry[1]
            state = committed(topic_id, index)
            return without_elr(state) if cleared and state is not None else state

        return get

    def pending_eligible(self) -> list[PartitionKey]:
        """The pending ones with leaders that are eligible, or were the last (KIP-966)."""
        return [
            key
            for key, state in self.items()
            if state is not None and (state.eligible_leaders or state.last_known_leaders)
        ]

    def pending_of(self, topic_id: UUID, count: int) -> list[PartitionKey]:
        """List the partitions of a topic, which has ``count`` of them, with uncommitted changes."""
        if count <= len(self):
            return [key for at in range(count) if self.pending(key := (topic_id, at))]
        return sorted([key for key, _ in self.items() if key[0] == topic_id])

    def leads(self, broker_id: int) -> bool:
        """Tell whether the broker leads any partition."""
        if self._led.get(broker_id):
            return True
        return any(self._counts(key) for key in self._image.led_partitions(broker_id))

    def clear(self) -> None:
        """Forget all that is pending."""
        super().clear()
        for index in (self._isr, self._elr, self._led):
            index.clear()

    # ------------------------------------------------------------------ inside

    def _committed_state(self, key: PartitionKey) -> PartitionState | None:
        if self._gone(key[0]):
            return None
        state = self._image.partition(*key)
        return without_elr(state) if state is not None and self._cleared(key[0]) else state

    def _counts(self, key: PartitionKey) -> bool:
        """Tell whether the committed state of a partition is still its state."""
        return not self.pending(key) and not self._gone(key[0])

    def _walk(
        self,
        committed: Iterable[PartitionKey],
        pending: set[PartitionKey] | None,
        holds: Callable[[PartitionState], bool],
    ) -> Iterator[PartitionKey]:
        keys = merge(committed, sorted(pending)) if pending else committed
        before = None
        for key in keys:
            state = None if key == before else self.get(key)
            before = key
            if state is not None and holds(state):
                yield key

    def _set(self, key: PartitionKey, entry: Entry | None) -> None:
        old = self._entries.get(key)
        if old is not None and old[1] is not None:
            for index, broker_id in self._places(old[1]):
                index[broker_id].discard(key)
        super()._set(key, entry)
        if entry is not None and entry[1] is not None:
            for index, broker_id in self._places(entry[1]):
                index.setdefault(broker_id, set()).add(key)

    def _places(self, state: PartitionState) -> Iterable[tuple[dict[int, set[PartitionKey]], int]]:
        yield self._led, state.leader
        for broker_id in state.isr:
            yield self._isr, broker_id
        for broker_id in state.eligible_leaders:
            yield self._elr, broker_id


def _is_imbalanced(state: PartitionState) -> bool:
    return bool(state.replicas) and state.leader != state.replicas[0]
