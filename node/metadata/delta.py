"""The changes between two images, which publishers of metadata are told.

A delta is the difference of two states, not the way between them: what was created and deleted in
between, or changed and changed back, is not in it. Source: Kafka's MetadataDelta; KAFKA-14894 (a
snapshot deletes what it lacks), KAFKA-19497 (created and deleted at once leaves nothing).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from node.metadata.image import MetadataImage
from node.metadata.state import (
    AclState,
    BrokerState,
    ConfigResource,
    ControllerState,
    PartitionState,
    QuotaEntity,
    ScramKey,
    ScramState,
    TokenState,
    TopicState,
)

V = TypeVar("V")

FLAT_TABLES = ("features", "brokers", "controllers", "acls", "scram", "delegation_tokens")
NESTED_TABLES = ("configs", "client_quotas")


class Change(NamedTuple, Generic[V]):
    """A value before and after; None: it was not there, or is not any more."""

    before: V | None
    after: V | None


@dataclass(frozen=True, slots=True)
class TopicDelta:
    """The changes of one topic; ``partitions`` has those that changed, by index.

    All partitions of a created topic are in it, and all of a deleted one, with no state after. A
    topic that was deleted and created again by the same name has two deltas, of its two ids.
    """

    id: UUID
    name: str
    existed: bool
    exists: bool
    partitions: Mapping[int, Change[PartitionState]]


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """All that changed up to ``end_offset`` (exclusive), deleted topics before the others."""

    end_offset: int
    topics: tuple[TopicDelta, ...] = ()
    configs: Mapping[ConfigResource, Mapping[str, Change[str]]] = field(default_factory=dict)
    features: Mapping[str, Change[int]] = field(default_factory=dict)
    brokers: Mapping[int, Change[BrokerState]] = field(default_factory=dict)
    controllers: Mapping[int, Change[ControllerState]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, Change[float]]] = field(default_factory=dict)
    acls: Mapping[UUID, Change[AclState]] = field(default_factory=dict)
    scram: Mapping[ScramKey, Change[ScramState]] = field(default_factory=dict)
    delegation_tokens: Mapping[str, Change[TokenState]] = field(default_factory=dict)
    next_producer_id: int | None = None  # None: as it was

    def __bool__(self) -> bool:
        """Tell whether anything changed but the offset."""
        return self != MetadataDelta(self.end_offset)

    @property
    def created(self) -> Iterator[TopicDelta]:
        """The topics that are new."""
        return (topic for topic in self.topics if not topic.existed)

    @property
    def deleted(self) -> Iterator[TopicDelta]:
        """The topics that are gone."""
        return (topic for topic in self.topics if not topic.exists)

    @staticmethod
    def between(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        """The difference of any two images.

        O(topics + changes) when one is a copy of the other's past, else O(partitions).
        """
        before = {(topic.id, topic.name): topic for topic in old.topics.values()}
        after = {(topic.id, topic.name): topic for topic in new.topics.values()}
        topics = (
            _topic_delta(key, before.get(key), after.get(key))
            for key in before | after
            if before.get(key) is not after.get(key)
        )
        tables: dict[str, dict[Any, Any]] = {
            table: _differing(getattr(old, table), getattr(new, table)) for table in FLAT_TABLES
        }
        for table in NESTED_TABLES:
            was, now = getattr(old, table), getattr(new, table)
            tables[table] = {
                owner: _differing(was.get(owner, {}), now.get(owner, {})) for owner in was | now
            }
        return _delta(new, old.next_producer_id, topics, tables)


class DeltaBuilder:
    """Records what changes in an image while records are applied to it. O(changes).

    Only one at a time per image. For the first delta of a node that has just loaded its log take
    ``MetadataDelta.between(MetadataImage(), image)`` and build from there.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._forget()
        image.record_to(self)

    def take(self) -> MetadataDelta:
        """Give what changed since the last call; recording goes on."""
        image = self._image
        topics = (self._topic(*key) for key in self._partitions | self._topics)
        tables: dict[str, dict[Any, Any]] = {
            table: _changes(before, getattr(image, table)) for table, before in self._flat.items()
        }
        for table, owners in self._nested.items():
            now = getattr(image, table)
            tables[table] = {
                owner: _changes(before, now.get(owner, {})) for owner, before in owners.items()
            }
        delta = _delta(image, self._producer_id, topics, tables)
        self._forget()
        return delta

    def stop(self) -> None:
        """Record no more; another builder may."""
        self._image.record_to(None)

    def _forget(self) -> None:
        self._producer_id = self._image.next_producer_id
        self._topics: dict[tuple[UUID, str], bool] = {}  # whether it existed
        self._partitions: dict[tuple[UUID, str], dict[int, PartitionState | None]] = {}
        self._flat: dict[str, dict[Any, Any]] = {table: {} for table in FLAT_TABLES}
        self._nested: dict[str, dict[Any, dict[str, Any]]] = {t: {} for t in NESTED_TABLES}

    # what the image tells before it changes something; what came first counts

    def topic_changes(self, topic_id: UUID, name: str, *, existed: bool) -> None:
        """A topic comes or goes."""
        self._topics.setdefault((topic_id, name), existed)

    def partition_changes(
        self, topic: TopicState, index: int, before: PartitionState | None
    ) -> None:
        """A partition is set or goes."""
        key = (topic.id, topic.name)
        self._partitions.setdefault(key, {}).setdefault(index, before)

    def partitions_go(self, topic: TopicState) -> None:
        """All partitions of a topic go."""
        key = (topic.id, topic.name)
        self._partitions[key] = {**topic.partitions, **self._partitions.get(key, {})}

    def entry_changes(self, table: str, key: object, before: object | None) -> None:
        """An entry of a table of single values is set or goes."""
        self._flat[table].setdefault(key, before)

    def setting_changes(self, table: str, owner: object, name: str, before: object | None) -> None:
        """One of an owner's values is set or goes."""
        self._nested[table].setdefault(owner, {}).setdefault(name, before)

    def _topic(self, topic_id: UUID, name: str) -> TopicDelta | None:
        live = self._image.topics.get(name)
        exists = live is not None and live.id == topic_id
        return _compared(
            (topic_id, name),
            self._topics.get((topic_id, name), exists),
            exists,
            _changes(
                self._partitions.get((topic_id, name), {}),
                live.partitions if live is not None and exists else {},
            ),
        )


def _topic_delta(
    key: tuple[UUID, str], before: TopicState | None, after: TopicState | None
) -> TopicDelta | None:
    changes = _differing(
        {} if before is None else before.partitions, {} if after is None else after.partitions
    )
    return _compared(key, before is not None, after is not None, changes)


def _compared(
    key: tuple[UUID, str], existed: bool, exists: bool, changes: Mapping[int, Change[Any]]
) -> TopicDelta | None:
    """A topic's delta; None when it is as it was, or came and went."""
    if existed == exists and not (exists and changes):
        return None
    return TopicDelta(*key, existed, exists, changes)


def _differing(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Change[Any]]:
    """List the differences of two tables."""
    gone = {key: value for key, value in old.items() if key not in new}
    return _changes({**gone, **{key: old.get(key) for key in new}}, new)


def _changes(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> dict[Any, Change[Any]]:
    """List what differs now of some entries as they were."""
    found = {}
    for key, old in before.items():
        new = now.get(key)
        if new is not old and new != old:
            found[key] = Change(old, new)
    return found


def _delta(
    image: MetadataImage,
    old_producer_id: int,
    topics: Iterable[TopicDelta | None],
    tables: Mapping[str, Mapping[Any, Any]],
) -> MetadataDelta:
    changed = [topic for topic in topics if topic is not None]
    changed.sort(key=lambda topic: (topic.exists, topic.name, topic.id.int))
    producer_id = image.next_producer_id
    return MetadataDelta(
        end_offset=image.end_offset,
        topics=tuple(changed),
        next_producer_id=None if producer_id == old_producer_id else producer_id,
        **{
            table: {key: change for key, change in changes.items() if change}
            for table, changes in tables.items()
        },
    )
