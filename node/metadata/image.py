"""The metadata image: what the committed records of the log add up to.

One image serves the controller (its committed state), the brokers and the checker that folds the
log itself. ``digest`` is a fingerprint of the *state*, not of the way to it: the sum modulo 2^64
of one hash per entry, kept up to date in O(1) per changed entry, so that any two replicas can be
compared at every offset.

Source: Kafka's MetadataImage and MetadataDelta; KIP-631.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Protocol
from uuid import UUID

import msgspec
from msgspec.structs import replace as changed

from node.metadata.features import metadata_version
from node.metadata.index import PartitionIndex
from node.metadata.state import (
    BROKER,
    NO_LEADER,
    TOPIC,
    AclState,
    BrokerState,
    ConfigResource,
    ControllerState,
    ImageError,
    Listener,
    PartitionState,
    QuotaEntity,
    ScramKey,
    ScramState,
    TokenState,
    TopicState,
)

_MODULUS = 1 << 64
# Holders of the index of what a controller has to look after.
_REASSIGNING, _IMBALANCED, _ELIGIBLE = 0, 1, 2
_pack = msgspec.msgpack.Encoder().encode


class Recorder(Protocol):
    """Hears of every change before it happens: see ``DeltaBuilder``."""

    def topic_changes(self, topic_id: UUID, name: str, *, existed: bool) -> None:
        """A topic comes or goes."""

    def partition_changes(
        self, topic: TopicState, index: int, before: PartitionState | None
    ) -> None:
        """A partition is set or goes."""

    def partitions_go(self, topic: TopicState) -> None:
        """All partitions of a topic go."""

    def entry_changes(self, table: str, key: object, before: object | None) -> None:
        """An entry of a table of single values is set or goes."""

    def setting_changes(self, table: str, owner: object, name: str, before: object | None) -> None:
        """One of an owner's values is set or goes."""


class MetadataImage:
    """Holds the state folded from records; ``end_offset`` is exclusive: all below it is in.

    Read the tables; only ``node.metadata.fold`` changes them, and it never changes what ``copy``
    has returned before.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicState] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.controllers: dict[int, ControllerState] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.acls: dict[UUID, AclState] = {}
        self.scram: dict[ScramKey, ScramState] = {}
        self.delegation_tokens: dict[str, TokenState] = {}
        self.next_producer_id = 0  # where the next block of producer ids begins
        self.end_offset = 0
        self._by_id: dict[int, TopicState] = {}  # by the id's integer: UUID hashes slowly
        self._isr = PartitionIndex()
        self._elr = PartitionIndex()
        self._leaders = PartitionIndex()
        self._attention = PartitionIndex()
        self._owned: set[object] = set()  # topics and resources whose dict no copy shares
        self._sum = 0
        self._sums: dict[int, int] = {}  # by topic: what its partitions add to the sum
        self._recorder: Recorder | None = None

    @property
    def digest(self) -> str:
        """Fingerprint of the state: 16 hex digits, equal for equal states."""
        return f"{self._sum:016x}"

    def digest_without_eligible(self) -> str:
        """The digest that the state would have if no partition had eligible leaders, or last ones.

        O(those that have).
        """
        total = self._sum
        for topic_id, index in self.eligible_partitions():
            state = self._by_id[topic_id.int].partitions[index]
            bare = changed(state, eligible_leaders=(), last_known_leaders=())
            total += _hash(("partition", topic_id, index, bare))
            total -= _hash(("partition", topic_id, index, state))
        return f"{total % _MODULUS:016x}"

    def without_eligible(self) -> MetadataImage:
        """A copy in which no partition has eligible leaders, or last ones; all else is the same."""
        other = self.copy()
        for topic_id, index in list(other.eligible_partitions()):
            topic = other.topics[self._by_id[topic_id.int].name]
            bare = changed(topic.partitions[index], eligible_leaders=(), last_known_leaders=())
            other.put_partition(topic, index, bare)
        return other

    def digest_without_passwords(self) -> str:
        """The digest that the state would have without SCRAM credentials. O(those)."""
        total = self._sum
        for key, value in self.scram.items():
            total -= _hash(("scram", key, value))
        return f"{total % _MODULUS:016x}"

    def topic_settings(self) -> dict[str, str]:
        """The part of the digest that the settings of each topic are, by its name. O(those)."""
        return {
            owner[1]: _hex(sum(_hash(("configs", owner, *each)) for each in settings.items()))
            for owner, settings in sorted(self.configs.items())
            if owner[0] == TOPIC
        }

    @property
    def metadata_version(self) -> int:
        """The finalised level of metadata.version; Kafka's lowest one when none is set."""
        return metadata_version(self.features)

    def topic_by_id(self, topic_id: UUID) -> TopicState | None:
        """The live topic of that id."""
        return self._by_id.get(topic_id.int)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """The settings of a resource; empty when none are set."""
        return self.configs.get(resource, {})

    def partition(self, topic_id: UUID, index: int) -> PartitionState | None:
        """One partition of a live topic."""
        topic = self._by_id.get(topic_id.int)
        return None if topic is None else topic.partitions.get(index)

    # ------------------------------------------------------------------ indexes

    def isr_partitions(self, broker_id: int) -> Iterator[tuple[UUID, int]]:
        """(topic id, partition) of all that have the broker in sync, sorted, and so below."""
        return self._isr.of(broker_id)

    def elr_partitions(self, broker_id: int) -> Iterator[tuple[UUID, int]]:
        """List the partitions that have the broker as an eligible leader (KIP-966)."""
        return self._elr.of(broker_id)

    def led_partitions(self, broker_id: int) -> Iterator[tuple[UUID, int]]:
        """List the partitions that the broker leads."""
        return self._leaders.of(broker_id)

    def leaderless_partitions(self) -> Iterator[tuple[UUID, int]]:
        """List the partitions without a leader."""
        return self._leaders.of(NO_LEADER)

    def imbalanced_partitions(self) -> Iterator[tuple[UUID, int]]:
        """List the partitions whose leader is not their first replica."""
        return self._attention.of(_IMBALANCED)

    def leaderless_in(self, topic_id: UUID) -> Iterator[int]:
        """List the partitions of one topic that have no leader."""
        return self._leaders.of_topic(NO_LEADER, topic_id.int, self._end(topic_id))

    def imbalanced_in(self, topic_id: UUID) -> Iterator[int]:
        """List the partitions of one topic whose leader is not their first replica."""
        return self._attention.of_topic(_IMBALANCED, topic_id.int, self._end(topic_id))

    def reassigning_partitions(self) -> Iterator[tuple[UUID, int]]:
        """List the partitions with replicas that are being added or removed."""
        return self._attention.of(_REASSIGNING)

    def eligible_partitions(self) -> Iterator[tuple[UUID, int]]:
        """List the partitions with eligible leaders, or last ones (KIP-966)."""
        return self._attention.of(_ELIGIBLE)

    @property
    def eligible_count(self) -> int:
        """Count the partitions that have eligible leaders, or last ones. O(topics)."""
        return self._attention.count(_ELIGIBLE)

    def led_count(self, broker_id: int) -> int:
        """Count the partitions that a broker leads; NO_LEADER: those without one. O(topics)."""
        return self._leaders.count(broker_id)

    # ------------------------------------------------------------------ whole images

    def copy(self) -> MetadataImage:
        """An independent image of the same state: a consistent view, to publish or to store.

        O(topics and resources), not O(partitions): what lies below is shared until one of the two
        images changes it.
        """
        other = MetadataImage()
        for name in _TABLES:
            setattr(other, name, dict(getattr(self, name)))
        other.next_producer_id = self.next_producer_id
        other.end_offset = self.end_offset
        other._by_id = dict(self._by_id)
        other._isr = self._isr.copy()
        other._elr = self._elr.copy()
        other._leaders = self._leaders.copy()
        other._attention = self._attention.copy()
        other._sum = self._sum
        other._sums = dict(self._sums)
        self._owned.clear()
        return other

    def record_to(self, recorder: Recorder | None) -> None:
        """Tell ``recorder`` of all changes from now on; copies of the image do not."""
        if recorder is not None and self._recorder is not None:
            raise RuntimeError("the changes of this image are recorded already: stop that first")
        self._recorder = recorder

    def become(self, other: MetadataImage) -> None:
        """Take over the state of ``other``, which nobody may use any more: a loaded snapshot."""
        vars(self).update(vars(other))

    def let_go(self, partitions: int) -> bool:
        """Forget topics of about so many partitions; whether there are more.

        For an image that nobody uses any more: to free a million partitions at once takes a fifth
        of a second. What other images share with it stays theirs.
        """
        while partitions > 0 and self.topics:
            _, topic = self.topics.popitem()
            del self._by_id[topic.id.int]
            partitions -= 1 + len(topic.partitions)
        return bool(self.topics)

    def __eq__(self, other: object) -> bool:
        """Equal states, wherever in the log."""
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return self.next_producer_id == other.next_producer_id and all(
            getattr(self, name) == getattr(other, name) for name in _TABLES
        )

    __hash__ = None  # type: ignore[assignment] # mutable

    # ------------------------------------------------------------------ changes

    def put_topic(self, name: str, topic_id: UUID) -> TopicState:
        """Add a topic without partitions; neither its name nor its id may be taken."""
        if self._recorder is not None:
            self._recorder.topic_changes(topic_id, name, existed=False)
        topic = TopicState(topic_id, name)
        self._sums[topic_id.int] = 0
        self.topics[name] = self._by_id[topic_id.int] = topic
        self._owned.add(topic_id.int)
        self._add("topic", name, topic_id)
        return topic

    def drop_topic(self, topic: TopicState) -> None:
        """Take a topic away, with its partitions; its settings stay."""
        if self._recorder is not None:
            self._recorder.topic_changes(topic.id, topic.name, existed=True)
            self._recorder.partitions_go(topic)
        for index in (self._isr, self._elr, self._leaders, self._attention):
            index.drop(topic.id.int, topic.partitions)
        del self.topics[topic.name], self._by_id[topic.id.int]
        self._sum = (self._sum - self._sums.pop(topic.id.int)) % _MODULUS
        self._subtract("topic", topic.name, topic.id)

    def put_partition(
        self, topic: TopicState, index: int, new: PartitionState | None
    ) -> TopicState:
        """Set one partition, None: take it away. Returns the topic as it is now."""
        topic_key = topic.id.int
        if topic_key not in self._owned:
            topic = TopicState(topic.id, topic.name, dict(topic.partitions))
            self.topics[topic.name] = self._by_id[topic_key] = topic
            self._owned.add(topic_key)
        old = topic.partitions.get(index)
        if self._recorder is not None:
            self._recorder.partition_changes(topic, index, old)
        change = 0 if old is None else -_hash(("partition", topic.id, index, old))
        if new is None:
            topic.partitions.pop(index, None)
        else:
            topic.partitions[index] = new
            change += _hash(("partition", topic.id, index, new))
        self._sum = (self._sum + change) % _MODULUS
        self._sums[topic_key] = (self._sums[topic_key] + change) % _MODULUS
        self._reindex(topic_key, index, old or _NOTHING, new or _NOTHING)
        return topic

    def put(self, table: str, key: object, value: object | None) -> None:
        """Set an entry of a table of single values; None: take it away."""
        entries: dict[object, object] = getattr(self, table)
        old = entries.pop(key, None)
        if self._recorder is not None:
            self._recorder.entry_changes(table, key, old)
        if old is not None:
            self._subtract(table, key, old)
        if value is not None:
            entries[key] = value
            self._add(table, key, value)

    def put_setting(self, table: str, owner: object, name: str, value: object | None) -> None:
        """Set one of an owner's values (``configs``, ``client_quotas``); None: take it away."""
        owners: dict[object, dict[str, object]] = getattr(self, table)
        values = owners.get(owner, {})
        old = values.get(name)
        if old == value:
            return
        if self._recorder is not None:
            self._recorder.setting_changes(table, owner, name, old)
        if (table, owner) not in self._owned:
            values = dict(values)
            self._owned.add((table, owner))
        if old is not None:
            self._subtract(table, owner, name, old)
        if value is not None:
            values[name] = value
            self._add(table, owner, name, value)
        else:
            del values[name]
        if values:
            owners[owner] = values
        else:
            del owners[owner]

    def put_next_producer_id(self, value: int) -> None:
        """Set where the next block of producer ids begins."""
        if self.next_producer_id:
            self._subtract("next_producer_id", self.next_producer_id)
        self.next_producer_id = value
        if value:
            self._add("next_producer_id", value)

    def _end(self, topic_id: UUID) -> int:
        """Give the number after the topic's last partition, 0 of no topic. O(partitions)."""
        topic = self._by_id.get(topic_id.int)
        return 0 if topic is None else max(topic.partitions, default=-1) + 1

    def _reindex(self, topic: int, index: int, old: PartitionState, new: PartitionState) -> None:
        if old.isr != new.isr:
            self._isr.move(topic, index, old.isr, new.isr)
        if old.eligible_leaders != new.eligible_leaders:
            self._elr.move(topic, index, old.eligible_leaders, new.eligible_leaders)
        if old.leader != new.leader or old is _NOTHING or new is _NOTHING:
            self._leaders.move(topic, index, _leader(old), _leader(new))
        before, after = _attention(old), _attention(new)
        if before != after:
            self._attention.move(topic, index, before, after)

    def _add(self, *entry: object) -> None:
        self._sum = (self._sum + _hash(entry)) % _MODULUS

    def _subtract(self, *entry: object) -> None:
        self._sum = (self._sum - _hash(entry)) % _MODULUS


def digest_less(digest: str, parts: Iterable[str]) -> str:
    """Give the digest of a state without some of its parts, see ``topic_settings``."""
    return _hex(int(digest, 16) - sum(int(part, 16) for part in parts))


def _hex(number: int) -> str:
    return f"{number % _MODULUS:016x}"


_TABLES = (
    "topics",
    "configs",
    "features",
    "brokers",
    "controllers",
    "client_quotas",
    "acls",
    "scram",
    "delegation_tokens",
)
_NOTHING = PartitionState((), (), NO_LEADER, 0, 0)  # a partition that is not there


def _hash(entry: tuple[object, ...]) -> int:
    """64 bits of an entry's MessagePack: a format that has one form for each value."""
    return int.from_bytes(blake2b(_pack(entry), digest_size=8).digest(), "big")


def _leader(state: PartitionState) -> tuple[int, ...]:
    return () if state is _NOTHING else (state.leader,)


def _attention(state: PartitionState) -> tuple[int, ...]:
    balanced = not state.replicas or state.leader == state.replicas[0]
    eligible = state.eligible_leaders or state.last_known_leaders
    if balanced and not eligible and not state.adding and not state.removing:
        return ()
    wanted = (_REASSIGNING,) if state.adding or state.removing else ()
    if not balanced:
        wanted = (*wanted, _IMBALANCED)
    return (*wanted, _ELIGIBLE) if eligible else wanted


__all__ = [
    "BROKER",
    "NO_LEADER",
    "TOPIC",
    "AclState",
    "BrokerState",
    "ConfigResource",
    "ControllerState",
    "ImageError",
    "Listener",
    "MetadataImage",
    "PartitionState",
    "TopicState",
]
