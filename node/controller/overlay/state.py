"""Uncommitted records over the committed image, so that pipelined operations see each other.

``replay`` does to the overlay what the image does when the same record is committed. Each entry
knows the write that put it last: when that write is committed the entry goes, when the write is
refused while it is being worked out it is undone, and when leadership is lost everything goes, in
O(pending) and without touching the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from node.controller.operations import PendingWrite
from node.controller.overlay.map import Journal, OverlayMap
from node.controller.overlay.partitions import PartitionMap
from node.controller.slices import Pace, Slices, finish
from node.metadata.fold import HANDLERS as FOLD
from node.metadata.fold import changed, partition_state, without_elr
from node.metadata.image import (
    TOPIC,
    BrokerState,
    ConfigResource,
    ControllerState,
    MetadataImage,
    PartitionState,
)
from node.metadata.schemas import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

UNKNOWN_EPOCH = -3  # of a broker whose registration has no offset yet


@dataclass(frozen=True, slots=True)
class _Settings:
    """Pending settings of a resource; ``cleared``: the committed ones do not count any more."""

    cleared: bool = False
    values: Mapping[str, str | None] = field(default_factory=dict)


class Overlay:
    """The speculative state of an active controller."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._journal: Journal = {}
        self._settings = OverlayMap[ConfigResource, _Settings](self._journal, lambda _: None)
        self._topics = OverlayMap[str, UUID](self._journal, self._committed_topic)
        self._names = OverlayMap[UUID, str](self._journal, self._committed_name)
        self._sizes = OverlayMap[UUID, int](self._journal, self._committed_size)
        self._features = OverlayMap[str, int](self._journal, self._committed_feature)
        self._brokers = OverlayMap[int, BrokerState](self._journal, self._committed_broker)
        self._controllers = OverlayMap[int, ControllerState](
            self._journal, self._committed_controller
        )
        self._producer_ids = OverlayMap[None, int](
            self._journal, lambda _: self.image.next_producer_id
        )
        # Topics whose committed eligible leaders do not count any more; None: of all.
        self._cleared = OverlayMap[UUID | None, bool](self._journal, lambda _: None)
        self.partitions = PartitionMap(
            self._journal, image, self._names.pending, self._is_elr_cleared
        )
        self.tables: Mapping[str, OverlayMap[Any, Any]] = {
            "settings": self._settings,
            "topics": self._topics,
            "names": self._names,
            "sizes": self._sizes,
            "features": self._features,
            "brokers": self._brokers,
            "controllers": self._controllers,
            "producer ids": self._producer_ids,
            "partitions": self.partitions,
            "cleared": self._cleared,
        }
        self._registering: dict[int, PendingWrite] = {}  # broker id -> its registration
        self.leaving: set[int] = set()  # brokers that are being taken out of all ISRs
        self.lost_directories: set[UUID] = set()  # of which replicas are being taken out

    # ------------------------------------------------------------------ read

    def setting(self, resource: ConfigResource, name: str) -> str | None:
        """The value of a setting with all pending writes done; None when not set."""
        pending = self._settings.get(resource)
        if pending is not None:
            if name in pending.values:
                return pending.values[name]
            if pending.cleared:
                return None
        return self.image.config(resource).get(name)

    def settings(self, resource: ConfigResource) -> dict[str, str]:
        """All settings of a resource with all pending writes done."""
        pending = self._settings.get(resource)
        if pending is None:
            return dict(self.image.config(resource))
        committed = {} if pending.cleared else self.image.config(resource)
        merged = {**committed, **pending.values}
        return {name: value for name, value in merged.items() if value is not None}

    def resources(self) -> set[ConfigResource]:
        """The resources that have settings, or had some before what is pending."""
        return {*self.image.configs, *[resource for resource, _ in self._settings.items()]}

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic; None when there is none."""
        return self._topics.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a live topic."""
        return self._names.get(topic_id)

    def topic_names(self) -> list[str]:
        """The names of all live topics, sorted. O(topics)."""
        names = {name for name in self.image.topics if not self._topics.pending(name)}
        names |= {name for name, topic_id in self._topics.items() if topic_id is not None}
        return sorted(names)

    def partition_count(self, topic_id: UUID) -> int:
        """Count the partitions of a live topic: they are numbered from 0."""
        return self._sizes.get(topic_id) or 0

    def partition(self, topic_id: UUID, index: int) -> PartitionState | None:
        """The state of a partition of a live topic."""
        return self.partitions.get((topic_id, index))

    def feature(self, name: str) -> int:
        """The finalised level of a feature, 0 when it is off."""
        return self._features.get(name) or 0

    def feature_levels(self) -> dict[str, int]:
        """All finalised levels."""
        merged = {**self.image.features, **dict(self._features.items())}
        return {name: level for name, level in merged.items() if level}

    def broker(self, broker_id: int) -> BrokerState | None:
        """A registered broker; its epoch is UNKNOWN_EPOCH until its registration is appended."""
        return self._brokers.get(broker_id)

    def brokers(self) -> list[BrokerState]:
        """All registered brokers, by id."""
        merged = {**self.image.brokers, **dict(self._brokers.items())}
        return [broker for _, broker in sorted(merged.items()) if broker is not None]

    def has_brokers(self) -> bool:
        """Tell whether any broker is registered."""
        pending = dict(self._brokers.items())
        return any(pending.values()) or any(b not in pending for b in self.image.brokers)

    def controllers(self) -> list[ControllerState]:
        """All registered controllers, by id."""
        merged = {**self.image.controllers, **dict(self._controllers.items())}
        return [state for _, state in sorted(merged.items()) if state is not None]

    def next_producer_id(self) -> int:
        """The first producer id that was never given to a broker."""
        return self._producer_ids.get(None) or 0

    def is_active(self, broker_id: int) -> bool:
        """Tell whether a broker may lead and be in sync: registered, unfenced, and staying."""
        broker = self.broker(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker_id not in self.leaving
        )

    def registration_of(self, broker_id: int) -> PendingWrite | None:
        """The write whose last record registers the broker, while that has no known offset."""
        return self._registering.get(broker_id)

    def __len__(self) -> int:
        """Count the entries that are pending."""
        return sum(map(len, self.tables.values()))

    # ------------------------------------------------------------------ change

    def replay(self, write: PendingWrite, record: MetadataRecord) -> None:
        """Do what ``record`` will do to the image."""
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, write, record)

    def appended(self, write: PendingWrite) -> None:
        """The offsets of a write are known: the broker that its last record registers has one."""
        assert write.last_offset is not None, write  # noqa: S101
        for broker_id in [b for b, w in self._registering.items() if w is write]:
            del self._registering[broker_id]
            broker = self.broker(broker_id)
            if broker is not None:
                self._brokers.amend(broker_id, replace(broker, epoch=write.last_offset))

    def committed(self, write: PendingWrite) -> None:
        """The image has this write now: forget what no later one has changed."""
        for map_, key, _ in self._journal.pop(write, ()):
            map_.settle(write, key)

    def undo(self, write: PendingWrite) -> None:
        """Take back the newest write, which is refused or only validated."""
        finish(self.undo_slices(write, Pace()))

    def undo_slices(self, write: PendingWrite, pace: Pace) -> Slices[None]:
        """Do as ``undo``, in slices; what is left when they end early, ``undo`` takes back."""
        changes = self._journal.get(write, [])
        while changes:
            map_, key, entry = changes.pop()
            map_.restore(key, entry)
            if pace.is_over():
                yield
        self._journal.pop(write, None)
        for broker_id in [b for b, w in self._registering.items() if w is write]:
            del self._registering[broker_id]

    def clear(self) -> None:
        """Drop all pending changes. O(pending)."""
        for table in self.tables.values():
            table.clear()
        self._journal.clear()
        self._registering.clear()
        self.leaving.clear()
        self.lost_directories.clear()

    # ------------------------------------------------------------------ committed state

    # Each look goes through the image: a loaded snapshot replaces its tables.

    def _committed_feature(self, name: str) -> int | None:
        return self.image.features.get(name)

    def _committed_broker(self, broker_id: int) -> BrokerState | None:
        return self.image.brokers.get(broker_id)

    def _committed_controller(self, controller_id: int) -> ControllerState | None:
        return self.image.controllers.get(controller_id)

    def _committed_topic(self, name: str) -> UUID | None:
        topic = self.image.topics.get(name)
        return None if topic is None else topic.id

    def _committed_name(self, topic_id: UUID) -> str | None:
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _is_elr_cleared(self, topic_id: UUID) -> bool:
        return len(self._cleared) > 0 and (
            self._cleared.pending(None) or self._cleared.pending(topic_id)
        )

    def _committed_size(self, topic_id: UUID) -> int | None:
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else len(topic.partitions)

    # ------------------------------------------------------------------ records

    def _topic(self, write: PendingWrite, record: TopicRecord) -> None:
        assert record.topic_id is not None, record  # noqa: S101 - we made it
        self._topics.put(write, record.name, record.topic_id)
        self._names.put(write, record.topic_id, record.name)
        self._sizes.put(write, record.topic_id, 0)

    def _remove_topic(self, write: PendingWrite, record: RemoveTopicRecord) -> None:
        topic_id = record.topic_id
        assert topic_id is not None, record  # noqa: S101
        name = self.topic_name(topic_id)
        assert name is not None, record  # noqa: S101
        for key in self.partitions.pending_of(topic_id, self.partition_count(topic_id)):
            self.partitions.put(write, key, None)
        self._topics.put(write, name, None)
        self._names.put(write, topic_id, None)
        self._sizes.put(write, topic_id, None)
        self._settings.put(write, (TOPIC, name), _Settings(cleared=True))

    def _partition(self, write: PendingWrite, record: PartitionRecord) -> None:
        topic_id = record.topic_id
        assert topic_id is not None, record  # noqa: S101
        self.partitions.put(write, (topic_id, record.partition_id), partition_state(record))
        size = max(self.partition_count(topic_id), record.partition_id + 1)
        self._sizes.put(write, topic_id, size)

    def _partition_change(self, write: PendingWrite, record: PartitionChangeRecord) -> None:
        assert record.topic_id is not None, record  # noqa: S101
        key = (record.topic_id, record.partition_id)
        old = self.partitions.get(key)
        assert old is not None, record  # noqa: S101
        self.partitions.put(write, key, changed(old, record))

    def _clear_elr(self, write: PendingWrite, record: ClearElrRecord) -> None:
        only = self.topic_id(record.topic_name) if record.topic_name else None
        assert only is not None or not record.topic_name, record  # noqa: S101
        for key in self.partitions.pending_eligible():
            state = self.partitions.get(key)
            if state is not None and only in (None, key[0]):
                self.partitions.put(write, key, without_elr(state))
        self._cleared.put(write, only, True)

    def _config(self, write: PendingWrite, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        old = self._settings.get(resource) or _Settings()
        values = {**old.values, record.name: record.value}
        self._settings.put(write, resource, _Settings(old.cleared, values))

    def _register(self, write: PendingWrite, record: RegisterBrokerRecord) -> None:
        old = self.broker(record.broker_id)
        again = (
            old is not None
            and old.epoch == UNKNOWN_EPOCH
            and old.incarnation == record.incarnation_id
        )
        if record.broker_epoch == UNKNOWN_EPOCH and not again:
            self._registering[record.broker_id] = write
        self._as_image(write, record)

    def _as_image(self, write: PendingWrite, record: MetadataRecord) -> None:
        FOLD[type(record)](_Target(self, write), record, self.image.end_offset)  # type: ignore[arg-type] # like an image


class _Target:
    """The tables of the overlay, in the words in which the fold of the image changes them."""

    def __init__(self, overlay: Overlay, write: PendingWrite) -> None:
        self._overlay = overlay
        self._write = write
        self.brokers = overlay.tables["brokers"]

    def put(self, table: str, key: object, value: object | None) -> None:
        """Set an entry, None: take it away."""
        self._overlay.tables[table].put(self._write, key, value)

    def put_next_producer_id(self, value: int) -> None:
        """Set where the next block of producer ids begins."""
        self._overlay.tables["producer ids"].put(self._write, None, value)


_HANDLERS: Mapping[type[MetadataRecord], Callable[[Overlay, PendingWrite, Any], None]] = {
    TopicRecord: Overlay._topic,  # noqa: SLF001 - the table of the class above
    RemoveTopicRecord: Overlay._remove_topic,  # noqa: SLF001
    PartitionRecord: Overlay._partition,  # noqa: SLF001
    PartitionChangeRecord: Overlay._partition_change,  # noqa: SLF001
    ClearElrRecord: Overlay._clear_elr,  # noqa: SLF001
    ConfigRecord: Overlay._config,  # noqa: SLF001
    RegisterBrokerRecord: Overlay._register,  # noqa: SLF001
    FeatureLevelRecord: Overlay._as_image,  # noqa: SLF001
    UnregisterBrokerRecord: Overlay._as_image,  # noqa: SLF001
    BrokerRegistrationChangeRecord: Overlay._as_image,  # noqa: SLF001
    RegisterControllerRecord: Overlay._as_image,  # noqa: SLF001
    ProducerIdsRecord: Overlay._as_image,  # noqa: SLF001
}
