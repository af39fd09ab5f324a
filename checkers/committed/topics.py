"""Topics by the committed log: what a node that has the log up to some offset shows of them.

A small fold of its own, of the records of topics, partitions and settings: not the image of our
node, which is judged by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from checkers.committed.effects import (
    LIST_CONFIG,
    REGISTER_CONFIG,
    elements_of,
    topic_id,
)
from checkers.committed.reference import Reference
from harness.contracts.evidence import LogBatch

TOPIC: Final = 2  # type of a resource
NO_CHANGE: Final = -2  # of a leader
CLEAR: Final = "ClearElrRecord"
BEGIN, END, ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's leader, the leader's epoch, who is in sync, and its replicas.

    KIP-966 names the brokers that are eligible to lead it, and those that led it last.
    """

    leader: int
    leader_epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...] = ()
    eligible: frozenset[int] = frozenset()
    last_leaders: frozenset[int] = frozenset()


@dataclass(slots=True)
class Topic:
    """A topic of some name; ``id`` is 32 hex digits, None where there is none (any more)."""

    id: str | None = None
    partitions: dict[int, Partition] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


View = Callable[[Topic], Hashable]
Wanted = tuple[str, View]  # of which topic, and what of it


def register(topic: Topic) -> Hashable:
    """The value of a register as text; None: it was never written."""
    return topic.configs.get(REGISTER_CONFIG)


def elements(topic: Topic) -> Hashable:
    """The elements of a list."""
    return elements_of(topic.configs.get(LIST_CONFIG))


def whole(topic: Topic) -> Hashable:
    """The id, number of partitions and settings of a topic; None: there is none."""
    if topic.id is None:
        return None
    return topic.id, len(topic.partitions), frozenset(topic.configs.items())


@cache
def partition(index: int) -> View:
    """The view of one partition: its leader, leader epoch and ISR; None: there is none."""

    def one(topic: Topic) -> Hashable:
        at = topic.partitions.get(index)
        return None if at is None else (at.leader, at.leader_epoch, at.isr)

    return one


def layout(topic: Topic) -> Hashable:
    """The id and all partitions of a topic, without who is eligible; None: there is none."""
    if topic.id is None:
        return None
    return topic.id, tuple(
        [
            (index, each.leader, each.leader_epoch, each.replicas, each.isr)
            for index, each in sorted(topic.partitions.items())
        ]
    )


def layout_with_eligible(topic: Topic) -> Hashable:
    """The same, with who is eligible and who led last."""
    if topic.id is None:
        return None
    return topic.id, tuple(
        [
            (
                *(index, each.leader, each.leader_epoch, each.replicas, each.isr),
                *(each.eligible, each.last_leaders),
            )
            for index, each in sorted(topic.partitions.items())
        ]
    )


@dataclass(frozen=True, slots=True)
class Version:
    """A node shows this once its log ends at ``end`` (exclusive), until the next version."""

    end: int
    shown: Hashable


class Versions:
    """The committed log makes these versions of some topics; a node shows one after the other.

    A state is seen as a whole batch leaves it, and a transaction as a whole.

    Attributes:
        begin: The end of what lies before the first version; None: nobody knows. 0: the log is
            known from its beginning, so that whatever has no version was never there.
    """

    def __init__(self, known: Reference, wanted: Iterable[Wanted]) -> None:
        self._views: dict[str, set[View]] = defaultdict(set)
        for name, view in wanted:
            self._views[name].add(view)
        self._fold = _Fold()
        self._of: dict[Wanted, list[Version]] = {}
        self.begin = begin = known.begin
        self.end = 0 if begin is None else begin
        if known.snapshot is not None:
            for record in known.snapshot.records:
                self._fold.apply(record)
        for name in self._views:
            self._note(name, 0)
        if begin is not None:
            for batch in known.batches(known.end):
                self._batch(batch)

    def of(self, wanted: Wanted) -> Sequence[Version]:
        """The versions of one thing, the oldest first, which also stands for all before it."""
        return self._of[wanted]

    def _batch(self, batch: LogBatch) -> None:
        self.end = batch.last + 1
        if batch.control:
            return
        touched = {name for record in batch.records for name in self._fold.apply(record)}
        for name in touched & self._views.keys():
            self._note(name, self.end)

    def _note(self, name: str, end: int) -> None:
        for view in self._views[name]:
            shown = view(self._fold.topic(name))
            versions = self._of.setdefault((name, view), [])
            if not versions or versions[-1].shown != shown:
                versions.append(Version(end, shown))


class _Fold:
    """Topics by name, as records leave them."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._names: dict[str, str] = {}  # by id
        self._waiting: list[Mapping[str, Any]] | None = None  # of a transaction

    def topic(self, name: str) -> Topic:
        """The topic of that name."""
        return self._topics.setdefault(name, Topic())

    def apply(self, record: Mapping[str, Any]) -> list[str]:
        """Fold in a record; says which topics have changed."""
        kind = record.get("type")
        if kind == BEGIN:
            self._waiting = []
        elif kind in (END, ABORT):
            waiting, self._waiting = self._waiting or [], None
            return [name for each in waiting if kind == END for name in self.apply(each)]
        elif self._waiting is not None:
            self._waiting.append(record)
        else:
            fields = record.get("fields")
            if kind == CLEAR:
                return self._cleared(str(fields.get("topic_name") or "") if fields else "")
            name = self._change(kind, fields) if isinstance(fields, Mapping) else None
            return [] if name is None else [name]
        return []

    def _cleared(self, name: str) -> list[str]:
        """Forget who is eligible, of one topic or of all; says which topics have changed."""
        names = [name] if name else list(self._topics)
        for each in names:
            topic = self.topic(each)
            for place, old in topic.partitions.items():
                topic.partitions[place] = replace(
                    old, eligible=frozenset(), last_leaders=frozenset()
                )
        return names

    def _change(self, kind: object, fields: Fields) -> str | None:
        if kind == "TopicRecord":
            return self._created(fields)
        if kind == "ConfigRecord":
            return self._configured(fields)
        name = self._names.get(topic_id(fields.get("topic_id")))
        if name is None:
            return None
        match kind:
            case "RemoveTopicRecord":
                self._topics[name] = Topic()
            case "PartitionRecord" | "PartitionChangeRecord":
                self._partition(self._topics[name], fields)
            case _:
                return None
        return name

    def _created(self, fields: Fields) -> str:
        name, id_ = str(fields.get("name")), topic_id(fields.get("topic_id"))
        self._names[id_] = name
        self.topic(name).id = id_
        return name

    def _configured(self, fields: Fields) -> str | None:
        if fields.get("resource_type", TOPIC) != TOPIC:
            return None
        name, key = str(fields.get("resource_name")), str(fields.get("name"))
        value = fields.get("value")
        configs = self.topic(name).configs
        if value is None:
            configs.pop(key, None)
        else:
            configs[key] = str(value)
        return name

    def _partition(self, topic: Topic, fields: Fields) -> None:
        place, isr = fields.get("partition_id", 0), fields.get("isr")
        leader = fields.get("leader", NO_CHANGE)
        old = topic.partitions.get(place)
        if old is None:
            epoch = fields.get("leader_epoch", 0)
            topic.partitions[place] = Partition(
                leader,
                epoch,
                frozenset(isr or ()),
                tuple(fields.get("replicas") or ()),
                frozenset(fields.get("eligible_leader_replicas") or ()),
                frozenset(fields.get("last_known_elr") or ()),
            )
            return
        moved = leader != NO_CHANGE
        replicas, eligible = fields.get("replicas"), fields.get("eligible_leader_replicas")
        last = fields.get("last_known_elr")
        topic.partitions[place] = Partition(
            leader if moved else old.leader,
            old.leader_epoch + moved,
            old.isr if isr is None else frozenset(isr),
            old.replicas if replicas is None else tuple(replicas),
            old.eligible if eligible is None else frozenset(eligible),
            old.last_leaders if last is None else frozenset(last),
        )
