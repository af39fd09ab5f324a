"""Holds what a controller's answer says of topics, partitions and brokers against its metadata.

Each rule goes by the sentence of a KIP, or of Kafka's documentation of an error, and by the records
before the answer: not by what a controller of ours would answer, so that a mistake which is in both
is seen. Errors that may have other reasons, too, are not looked at.

Source: KIP-460 (ElectLeaders), KIP-455 (AlterPartitionReassignments), KIP-497 and KIP-841
(AlterPartition), KIP-4 (CreateTopics, DeleteTopics), KIP-195 (CreatePartitions), KIP-730
(AllocateProducerIds), KIP-631 (UnregisterBroker); ``org.apache.kafka.common.protocol.Errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from checkers.invariants.rows import name_of, once, partition_of, partitions, topic_of
from node.controller.errors import ApiError
from node.metadata.image import MetadataImage
from node.metadata.state import NO_LEADER
from node.wire.api import ApiKey

PREFERRED: Final = 0  # the type of an election; the other one is unclean
MANY: Final = 1_000  # new partitions, from which on a request may be refused for their number

_Rule = Callable[[Any, Any, MetadataImage], Iterator[str]]


def unfounded(api: int, request: Any, response: Any, image: MetadataImage) -> list[str]:
    """Tell what an answer says that the metadata does not.

    Args:
        api: The key of the API.
        request: What was asked.
        response: The answer to it.
        image: The metadata by which the controller answered.
    """
    rule = RULES.get(api)
    return [] if rule is None else list(rule(request, response, image))


def _elections(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge ElectLeaders: an election is needed if the partition lacks the leader asked for."""
    is_preferred = getattr(request, "election_type", PREFERRED) == PREFERRED  # all before KIP-460
    for topic, part in partitions(
        response.replica_election_results, "partition_result", "partition_id"
    ):
        name, code = f"{topic.topic}-{part.partition_id}", part.error_code
        state = partition_of(image, topic, part.partition_id)
        if code == ApiError.UNKNOWN_TOPIC_OR_PARTITION and state is not None:
            yield f"there is a partition {name}"
        if state is None:
            continue
        has_preferred = state.leader == next(iter(state.replicas), NO_LEADER)
        is_led = has_preferred if is_preferred else state.leader != NO_LEADER
        if code == ApiError.ELECTION_NOT_NEEDED and not is_led:
            yield f"{name} of the replicas {list(state.replicas)} is led by {state.leader}"
        if code == ApiError.NONE and is_led:
            yield f"{name} was led by {state.leader} already"


def _creations(_: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge CreateTopics: a topic can be created only if there is none of that name."""
    for topic in once(response.topics, name_of):
        exists = topic.name in image.topics
        if topic.error_code == ApiError.TOPIC_ALREADY_EXISTS and not exists:
            yield f"there was no topic {topic.name!r}"
        if topic.error_code == ApiError.NONE and exists:
            yield f"there was a topic {topic.name!r} already"


def _deletions(_: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge DeleteTopics: only a topic that was there can be deleted.

    Topics that are called unknown are not judged: Kafka looks names up first, and decides later.
    """
    for topic in once(response.responses, name_of):
        id_ = getattr(topic, "topic_id", None)
        exists = topic.name in image.topics or (
            id_ is not None and image.topic_by_id(id_) is not None
        )
        if topic.error_code == ApiError.NONE and not exists:
            yield f"there was no topic {topic.name or id_}"


def _growth(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge CreatePartitions: the new number of partitions must be larger than the old one."""
    counts = {topic.name: topic.count for topic in request.topics}
    for row in once(response.results, name_of):
        topic, count, code = image.topics.get(row.name), counts.get(row.name), row.error_code
        if code == ApiError.UNKNOWN_TOPIC_OR_PARTITION and topic is not None:
            yield f"there was a topic {row.name!r}"
        if topic is None or count is None:
            continue
        has = len(topic.partitions)
        if code == ApiError.NONE and count <= has:
            yield f"topic {row.name!r} had {has} partitions"
        if code == ApiError.INVALID_PARTITIONS and has < count < has + MANY:
            yield f"topic {row.name!r} had {has} partitions, and {count} are more"


def _reassignments(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge AlterPartitionReassignments: only one that is under way can be cancelled."""
    asked = {
        (topic.name, part.partition_index): part.replicas
        for topic in request.topics
        for part in topic.partitions
    }
    for topic, part in partitions(response.responses, "partitions", "partition_index"):
        place, code = (topic.name, part.partition_index), part.error_code
        state = partition_of(image, topic, part.partition_index)
        name = f"{topic.name}-{part.partition_index}"
        if code == ApiError.UNKNOWN_TOPIC_OR_PARTITION and state is not None:
            yield f"there is a partition {name}"
        if state is None or place not in asked:
            continue
        is_moving = bool(state.adding or state.removing)
        is_given_up = asked[place] is None
        if code == ApiError.NO_REASSIGNMENT_IN_PROGRESS and (is_moving or not is_given_up):
            yield f"{name} adds {list(state.adding)} and removes {list(state.removing)}"
        if code == ApiError.NONE and is_given_up and not is_moving:
            yield f"{name} was not reassigned"


def _in_sync(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge AlterPartition: only the leader can change the ISR, and must name both epochs."""
    if response.error_code == ApiError.STALE_BROKER_EPOCH:
        yield from _stale(request, image)
        return
    asked = {
        (name_of(topic), part.partition_index): part
        for topic in request.topics
        for part in topic.partitions
    }
    for topic, part in partitions(response.topics, "partitions", "partition_index"):
        wanted = asked.get((name_of(topic), part.partition_index))
        found = topic_of(image, topic)
        state = None if found is None else found.partitions.get(part.partition_index)
        if wanted is None or found is None or state is None:
            continue
        name, code = f"{found.name}-{part.partition_index}", part.error_code
        epochs = wanted.leader_epoch, wanted.partition_epoch
        if code == ApiError.FENCED_LEADER_EPOCH and epochs[0] >= state.leader_epoch:
            yield f"{name} has leader epoch {state.leader_epoch}, and {epochs[0]} was named"
        if code == ApiError.INVALID_UPDATE_VERSION and epochs[1] >= state.partition_epoch:
            yield f"{name} has epoch {state.partition_epoch}, and {epochs[1]} was named"
        if code == ApiError.NONE and request.broker_id != state.leader:
            yield f"{name} is led by {state.leader}"
        if code == ApiError.NONE and epochs != (state.leader_epoch, state.partition_epoch):
            yield f"{name} has the epochs {state.leader_epoch} and {state.partition_epoch}"


def _producer_ids(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge AllocateProducerIds: the broker must be registered with the epoch that it names."""
    if response.error_code == ApiError.STALE_BROKER_EPOCH:
        yield from _stale(request, image)
    broker = image.brokers.get(int(request.broker_id))
    if response.error_code == ApiError.NONE and (
        broker is None or broker.epoch != request.broker_epoch
    ):
        yield f"broker {request.broker_id} is not registered with epoch {request.broker_epoch}"


def _stale(request: Any, image: MetadataImage) -> Iterator[str]:
    broker = image.brokers.get(int(request.broker_id))
    if broker is not None and broker.epoch == request.broker_epoch:
        yield f"broker {broker.id} is registered with epoch {broker.epoch}"


def _departures(request: Any, response: Any, image: MetadataImage) -> Iterator[str]:
    """Judge UnregisterBroker: only a registered broker can be unregistered."""
    is_there = int(request.broker_id) in image.brokers
    if response.error_code == ApiError.BROKER_ID_NOT_REGISTERED and is_there:
        yield f"broker {request.broker_id} was registered"
    if response.error_code == ApiError.NONE and not is_there:
        yield f"broker {request.broker_id} was not registered"


RULES: Final[Mapping[int, _Rule]] = {
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.CREATE_TOPICS: _creations,
    ApiKey.DELETE_TOPICS: _deletions,
    ApiKey.CREATE_PARTITIONS: _growth,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.ALTER_PARTITION: _in_sync,
    ApiKey.ALLOCATE_PRODUCER_IDS: _producer_ids,
    ApiKey.UNREGISTER_BROKER: _departures,
}
