"""The metadata image: what the committed records of the log add up to.

One image serves the controller (its committed state), the brokers and the checker that folds the
log itself. ``digest`` is a fingerprint of the *state*, not of the way to it: the sum modulo 2^64
of one hash per entry, kept up to date in O(1) per changed entry, so that any two replicas can be
compared at every offset.

Source: Kafka's MetadataImage and MetadataDelta; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any
from uuid import UUID

from node.metadata.records import MetadataRecord, OpaqueRecord
from node.metadata.schemas import (
    BrokerRegistrationChangeRecord,
    BrokerRegistrationChangeRecordV1,
    BrokerRegistrationChangeRecordV2,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionChangeRecordV1,
    PartitionChangeRecordV2,
    PartitionRecord,
    PartitionRecordV1,
    PartitionRecordV2,
    RegisterBrokerRecord,
    RegisterBrokerRecordV3,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

NO_LEADER = -1
_NO_CHANGE = -2
_MODULUS = 1 << 64
TOPIC = 2
BROKER = 4

ConfigResource = tuple[int, str]  # (resource type, name); the name "" is the cluster's default


class ImageError(Exception):
    """Raised when a record does not fit the state it is applied to: the node must stop."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition. ``leader`` is NO_LEADER when it has none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery: int = 0
    directories: tuple[UUID | None, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    last_known_leaders: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicState:
    """One topic and its partitions by index."""

    id: UUID
    name: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One registered broker."""

    id: int
    incarnation: UUID | None
    epoch: int
    endpoints: tuple[tuple[str, str, int], ...]  # (listener, host, port)
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool


class MetadataImage:
    """State folded from records; ``end_offset`` is exclusive: all below it is in.

    Read ``topics`` (by name), ``configs``, ``features`` and ``brokers``; only ``apply`` changes
    them.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicState] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.end_offset = 0
        self._by_id: dict[UUID, TopicState] = {}
        self._sum = 0

    @property
    def digest(self) -> str:
        """Fingerprint of the state: 16 hex digits, equal for equal states."""
        return f"{self._sum:016x}"

    def topic_by_id(self, topic_id: UUID) -> TopicState | None:
        """The live topic of that id."""
        return self._by_id.get(topic_id)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """The settings of a resource; empty when none are set."""
        return self.configs.get(resource, {})

    def apply(self, record: MetadataRecord, offset: int) -> None:
        """Fold in the record at ``offset``; offsets must rise. O(1), but for a removed topic.

        Raises:
            ImageError: The record is out of order or does not fit; the image is unchanged.
        """
        if offset < self.end_offset:
            raise ImageError(f"record at {offset} comes after all below {self.end_offset}")
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise ImageError(f"no rule for a {type(record).__name__} at {offset}")
        handler(self, record, offset)
        self.end_offset = offset + 1

    def copy(self) -> MetadataImage:
        """An independent image of the same state. O(size)."""
        other = MetadataImage()
        other.topics = {
            name: TopicState(t.id, t.name, dict(t.partitions)) for name, t in self.topics.items()
        }
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.brokers = dict(self.brokers)
        other.end_offset = self.end_offset
        other._by_id = {t.id: t for t in other.topics.values()}
        other._sum = self._sum
        return other

    def __eq__(self, other: object) -> bool:
        """Equal states, wherever in the log."""
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return (self.topics, self.configs, self.features, self.brokers) == (
            other.topics,
            other.configs,
            other.features,
            other.brokers,
        )

    __hash__ = None  # type: ignore[assignment] # mutable

    # ------------------------------------------------------------------ topics

    def _topic(self, record: TopicRecord, offset: int) -> None:
        if record.topic_id is None:
            raise ImageError(f"topic {record.name!r} at {offset} has no id")
        if record.name in self.topics or record.topic_id in self._by_id:
            raise ImageError(f"topic {record.name!r} {record.topic_id} at {offset} exists already")
        topic = TopicState(record.topic_id, record.name)
        self.topics[topic.name] = self._by_id[topic.id] = topic
        self._add("topic", topic.name, topic.id.hex)

    def _partition(self, record: PartitionRecord, offset: int) -> None:
        topic = self._required(record.topic_id, offset)
        old = topic.partitions.get(record.partition_id)
        self._put_partition(topic, record.partition_id, old, _partition_state(record))

    def _partition_change(self, record: PartitionChangeRecord, offset: int) -> None:
        topic = self._required(record.topic_id, offset)
        old = topic.partitions.get(record.partition_id)
        if old is None:
            raise ImageError(
                f"change at {offset} of {topic.name}-{record.partition_id}, which does not exist"
            )
        self._put_partition(topic, record.partition_id, old, _changed(old, record))

    def _put_partition(
        self, topic: TopicState, index: int, old: PartitionState | None, new: PartitionState
    ) -> None:
        if old is not None:
            self._subtract(*_partition_entry(topic.id, index, old))
        topic.partitions[index] = new
        self._add(*_partition_entry(topic.id, index, new))

    def _remove_topic(self, record: RemoveTopicRecord, offset: int) -> None:
        topic = self._required(record.topic_id, offset)
        for index, state in topic.partitions.items():
            self._subtract(*_partition_entry(topic.id, index, state))
        for name, value in self.configs.pop((TOPIC, topic.name), {}).items():
            self._subtract("config", TOPIC, topic.name, name, value)
        self._subtract("topic", topic.name, topic.id.hex)
        del self.topics[topic.name], self._by_id[topic.id]

    def _required(self, topic_id: UUID | None, offset: int) -> TopicState:
        topic = None if topic_id is None else self._by_id.get(topic_id)
        if topic is None:
            raise ImageError(f"record at {offset} names topic id {topic_id}, which does not exist")
        return topic

    # ------------------------------------------------------------------ configs, features

    def _config(self, record: ConfigRecord, _: int) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self.configs.get(resource)
        old = None if values is None else values.get(record.name)
        if old is not None:
            self._subtract("config", *resource, record.name, old)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            self._add("config", *resource, record.name, record.value)
        elif values is not None and old is not None:
            del values[record.name]
            if not values:
                del self.configs[resource]

    def _feature(self, record: FeatureLevelRecord, _: int) -> None:
        old = self.features.pop(record.name, 0)
        if old:
            self._subtract("feature", record.name, old)
        if record.feature_level:
            self.features[record.name] = record.feature_level
            self._add("feature", record.name, record.feature_level)

    # ------------------------------------------------------------------ brokers

    def _register(self, record: RegisterBrokerRecord | RegisterBrokerRecordV3, _: int) -> None:
        self._put_broker(
            BrokerState(
                id=record.broker_id,
                incarnation=record.incarnation_id,
                epoch=record.broker_epoch,
                endpoints=tuple((e.name, e.host, e.port) for e in record.end_points),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
            )
        )

    def _unregister(self, record: UnregisterBrokerRecord, offset: int) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, offset)
        del self.brokers[broker.id]
        self._subtract(*_broker_entry(broker))

    def _fence(self, record: FenceBrokerRecord, offset: int) -> None:
        self._put_broker(replace(self._registered(record.id, record.epoch, offset), fenced=True))

    def _unfence(self, record: UnfenceBrokerRecord, offset: int) -> None:
        self._put_broker(replace(self._registered(record.id, record.epoch, offset), fenced=False))

    def _change_broker(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, offset)
        if record.fenced:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=True)
        self._put_broker(broker)

    def _put_broker(self, broker: BrokerState) -> None:
        old = self.brokers.get(broker.id)
        if old is not None:
            self._subtract(*_broker_entry(old))
        self.brokers[broker.id] = broker
        self._add(*_broker_entry(broker))

    def _registered(self, broker_id: int, epoch: int, offset: int) -> BrokerState:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ImageError(
                f"record at {offset} names broker {broker_id} epoch {epoch}, registered is {broker}"
            )
        return broker

    # ------------------------------------------------------------------ digest

    def _nothing(self, record: MetadataRecord, offset: int) -> None:
        """The record changes no state that the image holds."""

    def _add(self, *entry: object) -> None:
        self._sum = (self._sum + _hash(entry)) % _MODULUS

    def _subtract(self, *entry: object) -> None:
        self._sum = (self._sum - _hash(entry)) % _MODULUS


def _hash(entry: tuple[object, ...]) -> int:
    """64 bits of an entry's canonical text: ``ascii``, which no Unicode version changes."""
    return int.from_bytes(blake2b(ascii(entry).encode(), digest_size=8).digest(), "big")


def _partition_entry(topic_id: UUID, index: int, state: PartitionState) -> tuple[object, ...]:
    return (
        "partition",
        topic_id.hex,
        index,
        state.replicas,
        state.isr,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.removing,
        state.adding,
        state.recovery,
        tuple([d.hex if d else "" for d in state.directories]),
        state.eligible_leaders,
        state.last_known_leaders,
    )


def _broker_entry(broker: BrokerState) -> tuple[object, ...]:
    return (
        "broker",
        broker.id,
        broker.incarnation.hex if broker.incarnation else "",
        broker.epoch,
        broker.endpoints,
        broker.rack,
        broker.fenced,
        broker.in_controlled_shutdown,
    )


def _partition_state(record: PartitionRecord) -> PartitionState:
    return PartitionState(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        removing=record.removing_replicas,
        adding=record.adding_replicas,
        recovery=record.leader_recovery_state,
        directories=record.directories if isinstance(record, PartitionRecordV1) else (),
        eligible_leaders=(record.eligible_leader_replicas or ())
        if isinstance(record, PartitionRecordV2)
        else (),
        last_known_leaders=(record.last_known_elr or ())
        if isinstance(record, PartitionRecordV2)
        else (),
    )


def _changed(old: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """A partition after a change record: what the record leaves out stays as it was.

    Every change raises the partition epoch, and any leader field, even the same leader, the
    leader epoch. Source: Kafka's PartitionRegistration.merge.
    """
    elects = record.leader != _NO_CHANGE
    changes: dict[str, Any] = {
        "replicas": record.replicas,
        "isr": record.isr,
        "removing": record.removing_replicas,
        "adding": record.adding_replicas,
    }
    if isinstance(record, PartitionChangeRecordV1):
        changes["directories"] = record.directories
    if isinstance(record, PartitionChangeRecordV2):
        changes["eligible_leaders"] = record.eligible_leader_replicas
        changes["last_known_leaders"] = record.last_known_elr
    if record.leader_recovery_state >= 0:
        changes["recovery"] = record.leader_recovery_state
    return replace(
        old,
        leader=record.leader if elects else old.leader,
        leader_epoch=old.leader_epoch + elects,
        partition_epoch=old.partition_epoch + 1,
        **{name: value for name, value in changes.items() if value is not None},
    )


_HANDLERS: Mapping[type[MetadataRecord], Callable[[MetadataImage, Any, int], None]] = {
    TopicRecord: MetadataImage._topic,  # noqa: SLF001 - the table of the class above
    PartitionRecord: MetadataImage._partition,  # noqa: SLF001
    PartitionRecordV1: MetadataImage._partition,  # noqa: SLF001
    PartitionRecordV2: MetadataImage._partition,  # noqa: SLF001
    PartitionChangeRecord: MetadataImage._partition_change,  # noqa: SLF001
    PartitionChangeRecordV1: MetadataImage._partition_change,  # noqa: SLF001
    PartitionChangeRecordV2: MetadataImage._partition_change,  # noqa: SLF001
    RemoveTopicRecord: MetadataImage._remove_topic,  # noqa: SLF001
    ConfigRecord: MetadataImage._config,  # noqa: SLF001
    FeatureLevelRecord: MetadataImage._feature,  # noqa: SLF001
    RegisterBrokerRecord: MetadataImage._register,  # noqa: SLF001
    RegisterBrokerRecordV3: MetadataImage._register,  # noqa: SLF001
    UnregisterBrokerRecord: MetadataImage._unregister,  # noqa: SLF001
    FenceBrokerRecord: MetadataImage._fence,  # noqa: SLF001
    UnfenceBrokerRecord: MetadataImage._unfence,  # noqa: SLF001
    BrokerRegistrationChangeRecord: MetadataImage._change_broker,  # noqa: SLF001
    BrokerRegistrationChangeRecordV1: MetadataImage._change_broker,  # noqa: SLF001
    BrokerRegistrationChangeRecordV2: MetadataImage._change_broker,  # noqa: SLF001
    NoOpRecord: MetadataImage._nothing,  # noqa: SLF001
    OpaqueRecord: MetadataImage._nothing,  # noqa: SLF001
}
