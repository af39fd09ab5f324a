"""Holds what a controller has granted against the metadata right after the records of its answer.

Each rule says what must be so once a request is granted, by the sentence of a KIP: the partitions
of a new topic are there, a setting has its value, a broker that is unregistered is gone. No
controller of ours is asked, so that a mistake which is in both is seen.

Source: KIP-4 (CreateTopics, DeleteTopics), KIP-195 (CreatePartitions), KIP-339
(IncrementalAlterConfigs), KIP-133 (AlterConfigs), KIP-460 (ElectLeaders), KIP-455
(AlterPartitionReassignments), KIP-497 and KIP-704 (AlterPartition), KIP-730 (AllocateProducerIds),
KIP-631 (registrations), KIP-584 (UpdateFeatures), KIP-858 (AssignReplicasToDirs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from checkers.invariants.rows import name_of, once, partition_of, partitions
from node.controller.errors import ApiError
from node.metadata.image import BROKER, TOPIC, MetadataImage
from node.metadata.state import NO_LEADER, ConfigResource, PartitionState
from node.wire.api import ApiKey

PREFERRED: Final = 0  # the type of an election; the other one is unclean
SET, DELETE, APPEND, SUBTRACT = range(4)
# Apache Kafka keeps the cluster's own value where all settings are replaced, with KIP-966.
KEPT: Final = "min.insync.replicas"
# What a list has that was never set (Kafka's documentation of topic configs).
LISTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
}
OF_QUORUM: Final = "kraft.version"  # a record of the quorum says it, not one of the metadata
_CHANGED: Final = frozenset({ApiError.NONE, ApiError.NEW_LEADER_ELECTED})
_OF_SETTINGS: Final = frozenset({ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS})


@dataclass(frozen=True, slots=True)
class Before:
    """A copy of the old metadata that rules need: an answer's records change the image in place."""

    settings: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    moving: frozenset[tuple[object, int]] = frozenset()  # partitions that were reassigned
    # The partitions, and their names, in which a broker was eligible that stopped cleanly.
    eligible: Mapping[tuple[UUID, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, api: int, request: Any, image: MetadataImage) -> Before:
        """Keep what the rule of an API needs."""
        if api in _OF_SETTINGS:
            names = [(int(each.resource_type), each.resource_name) for each in request.resources]
            return cls(settings={name: dict(image.config(name)) for name in names})
        if api == ApiKey.ALTER_PARTITION:
            rows = partitions(request.topics, "partitions", "partition_index")
            return cls(moving=frozenset(_place(*row) for row in rows if _is_moving(image, *row)))
        if api == ApiKey.BROKER_REGISTRATION and _stopped_cleanly(request, image):
            return cls(eligible=dict(_eligible(int(request.broker_id), image)))
        return cls()


_Rule = Callable[[Any, Any, Before, MetadataImage], Iterator[str]]


def unfulfilled(
    api: int, request: Any, response: Any, before: Before, image: MetadataImage
) -> list[str]:
    """Tell what an answer grants that is not so.

    Args:
        api: The key of the API.
        request: What was asked.
        response: The answer to it.
        before: What was kept of the metadata by which the controller answered.
        image: The metadata with the records that came with the answer.
    """
    rule = RULES.get(api)
    if rule is None or getattr(request, "validate_only", False):
        return []
    return list(rule(request, response, before, image))


def _is_moving(image: MetadataImage, topic: Any, part: Any) -> bool:
    state = partition_of(image, topic, int(part.partition_index))
    return state is not None and bool(state.adding or state.removing)


def _stopped_cleanly(request: Any, image: MetadataImage) -> bool:
    """Tell whether a broker knows the epoch of its process before, as after a clean stop."""
    before = image.brokers.get(int(request.broker_id))
    return before is not None and before.epoch == getattr(request, "previous_broker_epoch", None)


def _eligible(broker: int, image: MetadataImage) -> Iterator[tuple[tuple[UUID, int], str]]:
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            if broker in state.eligible_leaders:
                yield (topic.id, index), f"{topic.name}-{index}"


def _place(topic: Any, part: Any) -> tuple[object, int]:
    return name_of(topic), int(part.partition_index)


def _granted(rows: Iterable[Any]) -> Iterator[Any]:
    """Give the rows without an error, of what is named once."""
    return (row for row in once(rows, name_of) if row.error_code == ApiError.NONE)


def _creations(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge CreateTopics: the topic is there, with the partitions and settings asked for."""
    asked = {topic.name: topic for topic in request.topics}
    for row in _granted(response.topics):
        topic, found = asked.get(row.name), image.topics.get(row.name)
        if found is None:
            yield f"there is no topic {row.name!r} after it"
            continue
        if topic is None:
            continue
        by_hand = {int(each.partition_index): each.broker_ids for each in topic.assignments}
        count = len(by_hand) or topic.num_partitions
        if count > 0 and len(found.partitions) != count:
            yield f"topic {row.name!r} has {len(found.partitions)} partitions after it"
        for index, replicas in by_hand.items():
            state = found.partitions.get(index)
            if state is None or list(state.replicas) != list(map(int, replicas)):
                yield f"partition {index} of {row.name!r} has other replicas after it: {state}"
        if getattr(row, "topic_id", None) not in (None, found.id):
            yield f"topic {row.name!r} has the id {found.id}"
        settings = image.config((TOPIC, row.name))
        for each in topic.configs:
            if settings.get(each.name) != each.value:
                value = settings.get(each.name)
                yield f"{each.name} of topic {row.name!r} is {value!r} after it"


def _deletions(_: Any, response: Any, __: Before, image: MetadataImage) -> Iterator[str]:
    """Judge DeleteTopics: the topic is gone."""
    for row in _granted(response.responses):
        id_ = getattr(row, "topic_id", None)
        if row.name in image.topics or (id_ is not None and image.topic_by_id(id_) is not None):
            yield f"topic {row.name or id_} is there after it"


def _growth(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge CreatePartitions: the topic has the number of partitions asked for."""
    counts = {topic.name: topic.count for topic in request.topics}
    for row in _granted(response.results):
        found, count = image.topics.get(row.name), counts.get(row.name)
        if count is not None and (found is None or len(found.partitions) != count):
            has = None if found is None else len(found.partitions)
            yield f"topic {row.name!r} has {has} partitions after it"


def _settings(request: Any, response: Any, before: Before, image: MetadataImage) -> Iterator[str]:
    """Judge IncrementalAlterConfigs: each setting is as was asked for."""
    for name, configs in _changed(request, response):
        now, was = image.config(name), before.settings.get(name, {})
        for each in once(configs, lambda row: row.name):
            value = now.get(each.name)
            old = was.get(each.name, LISTS.get(each.name))
            due = _due(int(each.config_operation), each.value, old)
            if due is not None and value not in due:
                yield f"{each.name} of {name[1]!r} was {was.get(each.name)!r}, and is {value!r}"


def _due(operation: int, value: str | None, old: str | None) -> tuple[str | None, ...] | None:
    """Give the values of a setting that an operation allows; None: nobody knows what it was."""
    if operation == SET:
        return (value,)
    if operation == DELETE:
        return (None,)
    if not value or old is None:
        return None
    items, more = old.split(",") if old else [], value.split(",")
    if operation == SUBTRACT:
        return (",".join([item for item in items if item not in more]),)
    return (",".join(dict.fromkeys([*items, *more])),)


def _replaced(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge AlterConfigs: a resource has the settings asked for and no other."""
    for name, configs in _changed(request, response):
        due = {each.name: each.value for each in configs if each.value is not None}
        now = dict(image.config(name))
        for key in sorted({*due, *now} - {KEPT}):
            if now.get(key) != due.get(key):
                yield f"{key} of {name[1]!r} is {now.get(key)!r} after it"


def _changed(request: Any, response: Any) -> Iterator[tuple[ConfigResource, Any]]:
    """Give the resources whose settings are changed, and how."""

    def name(row: Any) -> ConfigResource:
        return int(row.resource_type), str(row.resource_name)

    asked = {name(each): each.configs for each in once(request.resources, name)}
    for row in once(response.responses, name):
        kind, _ = resource = name(row)
        if row.error_code == ApiError.NONE and kind in (TOPIC, BROKER) and resource in asked:
            yield resource, asked[resource]


def _elections(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge ElectLeaders: the partition is led, and by the preferred replica if that was asked."""
    is_preferred = getattr(request, "election_type", PREFERRED) == PREFERRED  # all before KIP-460
    rows = partitions(response.replica_election_results, "partition_result", "partition_id")
    for topic, part in rows:
        state = partition_of(image, topic, part.partition_id)
        if part.error_code != ApiError.NONE or state is None:
            continue
        first = next(iter(state.replicas), NO_LEADER)
        if state.leader == NO_LEADER or (is_preferred and state.leader != first):
            who = f"{topic.topic}-{part.partition_id} of the replicas {list(state.replicas)}"
            yield f"{who} is led by {state.leader} after it"


def _reassignments(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge AlterPartitionReassignments: those who stay are those asked for; or nothing moves."""
    asked = {
        _place(*row): row[1].replicas
        for row in partitions(request.topics, "partitions", "partition_index")
    }
    for topic, part in partitions(response.responses, "partitions", "partition_index"):
        state = partition_of(image, topic, int(part.partition_index))
        place = _place(topic, part)
        if part.error_code != ApiError.NONE or state is None or place not in asked:
            continue
        name, wanted = f"{topic.name}-{part.partition_index}", asked[place]
        if wanted is None and (state.adding or state.removing):
            yield f"{name} adds {list(state.adding)} and removes {list(state.removing)} after it"
        stays = {each for each in state.replicas if each not in state.removing}
        if wanted is not None and stays != set(wanted):
            yield f"{name} is to be left with {sorted(stays)} after it"


def _in_sync(request: Any, response: Any, before: Before, image: MetadataImage) -> Iterator[str]:
    """Judge AlterPartition: the ISR is the one asked for, and the answer tells what is so."""
    asked = {
        _place(*row): row[1] for row in partitions(request.topics, "partitions", "partition_index")
    }
    for topic, part in partitions(response.topics, "partitions", "partition_index"):
        place = _place(topic, part)
        state, wanted = partition_of(image, topic, place[1]), asked.get(place)
        if part.error_code not in _CHANGED or state is None or wanted is None:
            continue
        name = f"partition {place[1]} of {place[0]}"
        if part.error_code == ApiError.NEW_LEADER_ELECTED:
            if state.leader == request.broker_id:
                yield f"{name} is led by {state.leader} after it, who asked"
            continue
        told = (int(part.leader_id), part.leader_epoch, set(map(int, part.isr)))
        if told != (state.leader, state.leader_epoch, set(state.isr)):
            yield f"{name} is {state} after it"
        elif part.partition_epoch != state.partition_epoch:
            yield f"{name} has epoch {state.partition_epoch} after it"
        if getattr(part, "leader_recovery_state", state.recovery) != state.recovery:
            yield f"{name} has the recovery state {state.recovery} after it"
        if place not in before.moving and set(_members(wanted)) != set(state.isr):
            yield f"{name} has the ISR {sorted(state.isr)} after it"


def _members(part: Any) -> list[int]:
    """Give the ISR that is asked for, which has epochs since KIP-903."""
    if hasattr(part, "new_isr_with_epochs"):
        return [int(each.broker_id) for each in part.new_isr_with_epochs]
    return list(map(int, part.new_isr))


def _producer_ids(_: Any, response: Any, __: Before, image: MetadataImage) -> Iterator[str]:
    """Judge AllocateProducerIds: the next block begins where this one ends."""
    end = response.producer_id_start + response.producer_id_len
    if response.error_code == ApiError.NONE and image.next_producer_id != end:
        yield f"the next producer id is {image.next_producer_id} after it"


def _registrations(
    request: Any, response: Any, before: Before, image: MetadataImage
) -> Iterator[str]:
    """Judge BrokerRegistration: the broker is there as it says it is.

    After a clean stop it has all messages still, and may lead what it might lead (KIP-966).
    """
    if response.error_code != ApiError.NONE:
        return
    broker = image.brokers.get(int(request.broker_id))
    if broker is None:
        yield f"broker {request.broker_id} is not registered after it"
        return
    if broker.epoch != response.broker_epoch:
        yield f"broker {broker.id} is registered with epoch {broker.epoch} after it"
    yield from _as_it_says(f"broker {broker.id}", request, broker)
    if broker.rack != request.rack:
        yield f"broker {broker.id} is in the rack {broker.rack!r} after it"
    for place, name in before.eligible.items():
        state = image.partition(*place)
        if state is not None and broker.id not in (*state.eligible_leaders, *state.isr):
            yield f"broker {broker.id} stopped cleanly, and may not lead {name} any more after it"


def _controllers(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge ControllerRegistration: the controller is there as it says it is."""
    if response.error_code != ApiError.NONE:
        return
    controller = image.controllers.get(request.controller_id)
    if controller is None:
        yield f"controller {request.controller_id} is not registered after it"
        return
    yield from _as_it_says(f"controller {controller.id}", request, controller)


def _as_it_says(name: str, request: Any, node: Any) -> Iterator[str]:
    if node.incarnation != request.incarnation_id:
        yield f"{name} is registered with the incarnation {node.incarnation} after it"
    listeners = {(each.name, each.host, int(each.port)) for each in request.listeners}
    if {(each.name, each.host, each.port) for each in node.listeners} != listeners:
        yield f"{name} has the listeners {sorted(each.name for each in node.listeners)} after it"


def _departures(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge UnregisterBroker: the broker is gone, and leads nothing."""
    broker = int(request.broker_id)
    if response.error_code != ApiError.NONE:
        return
    if broker in image.brokers:
        yield f"broker {broker} is registered after it"
    elif any(True for _ in image.led_partitions(broker)):
        yield f"broker {broker} leads partitions after it"


def _levels(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge UpdateFeatures: each feature has its level."""
    if response.error_code != ApiError.NONE:
        return
    refused = {
        row.feature for row in getattr(response, "results", ()) if row.error_code != ApiError.NONE
    }
    for update in once(request.feature_updates, lambda row: row.feature):
        level = image.features.get(update.feature, 0)
        if update.feature not in {OF_QUORUM, *refused} and level != update.max_version_level:
            yield f"{update.feature} has level {level} after it"


def _directories(request: Any, response: Any, _: Before, image: MetadataImage) -> Iterator[str]:
    """Judge AssignReplicasToDirs: the replica is in the directory."""
    if response.error_code != ApiError.NONE:
        return
    broker = int(request.broker_id)
    for directory in response.directories:
        for topic, part in partitions(directory.topics, "partitions", "partition_index"):
            state = partition_of(image, topic, int(part.partition_index))
            if part.error_code != ApiError.NONE or state is None:
                continue
            found = _directory(state, broker)
            if found != directory.id_ and directory.id_ is not None:
                where = f"partition {part.partition_index} of {topic.topic_id}"
                yield f"the replica of {where} on broker {broker} is in {found} after it"


def _directory(state: PartitionState, broker: int) -> UUID | None:
    """Give the directory of a replica; None: it is not told, or there is no such replica."""
    return dict(zip(state.replicas, state.directories, strict=False)).get(broker)


RULES: Final[Mapping[int, _Rule]] = {
    ApiKey.CREATE_TOPICS: _creations,
    ApiKey.DELETE_TOPICS: _deletions,
    ApiKey.CREATE_PARTITIONS: _growth,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _settings,
    ApiKey.ALTER_CONFIGS: _replaced,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.ALTER_PARTITION: _in_sync,
    ApiKey.ALLOCATE_PRODUCER_IDS: _producer_ids,
    ApiKey.BROKER_REGISTRATION: _registrations,
    ApiKey.CONTROLLER_REGISTRATION: _controllers,
    ApiKey.UNREGISTER_BROKER: _departures,
    ApiKey.UPDATE_FEATURES: _levels,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _directories,
}
