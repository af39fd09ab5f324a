"""CreateTopics, CreatePartitions, DeleteTopics. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from uuid import UUID

from node.controller.config_schema import check_setting
from node.controller.configs import check_size, unknown_topic
from node.controller.context import Context
from node.controller.errors import ApiError, OperationError
from node.controller.names import check_name
from node.controller.operation import MAX_RECORDS_PER_BATCH, Operation
from node.controller.operations import CreateResult, NewTopic, TopicRef
from node.controller.partition_operations import NewPartitions
from node.controller.placement import (
    Replicas,
    check_assignment,
    in_sync,
    place_partitions,
)
from node.controller.slices import Pace, Slices
from node.log.meta_properties import random_id
from node.metadata.features import directories_supported, partition_version
from node.metadata.image import NO_LEADER, TOPIC
from node.metadata.schemas import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

_DEFAULT = -1

Placed = tuple[Replicas, Replicas]  # a partition's replicas, and its first ISR


# --------------------------------------------------------------------------- CreateTopics


def create(
    ctx: Context, operation: Operation, topic: NewTopic, collisions: Collisions
) -> Slices[CreateResult]:
    """Create a topic with its settings and partitions; raises OperationError."""
    check_name(topic.name)
    if ctx.overlay.topic_id(topic.name) is not None:
        raise OperationError(ApiError.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    other = collisions.of(topic.name)
    if other is not None:
        raise OperationError(
            ApiError.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic.name}' collides with existing topic: {other}",
        )
    configs = check_configs(topic.configs)
    partitions = yield from _new_partitions(ctx, operation.pace, topic)
    topic_id = _new_topic_id(ctx)
    settings = [
        ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=key, value=value)
        for key, value in configs.items()
    ]
    rows = (
        _partition(ctx, topic_id, index, replicas, isr)
        for index, (replicas, isr) in enumerate(partitions)
    )
    first = TopicRecord(name=topic.name, topic_id=topic_id)
    yield from operation.add_slices(chain([first], settings, rows))
    collisions.add(topic.name)
    return CreateResult(
        topic.name,
        topic_id,
        partitions=len(partitions),
        replication_factor=len(partitions[0][0]),
        configs=configs,
    )


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings of a new topic, checked; raises OperationError(INVALID_CONFIG)."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        if value is None:
            raise OperationError(
                ApiError.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        check_size(value)
        check_setting(TOPIC, name, value)
        checked[name] = value
    return checked


class Collisions:
    """Topics whose names would be one in a metric's name, where '.' and '_' are the same.

    Made when it is first needed, in O(topics), and kept up to date while the controller is active.
    """

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names
        self._taken: dict[str, str] | None = None

    def of(self, name: str) -> str | None:
        """A live topic that a new one of that name would collide with."""
        if "." not in name and "_" not in name:
            return None
        return self._table().get(_unified(name))

    def add(self, name: str) -> None:
        """A topic is created."""
        if self._taken is not None and ("." in name or "_" in name):
            self._taken[_unified(name)] = name

    def forget(self) -> None:
        """Topics have gone, or may have: look again when it is needed."""
        self._taken = None

    def _table(self) -> dict[str, str]:
        if self._taken is None:
            self._taken = {
                _unified(name): name for name in self._names() if "." in name or "_" in name
            }
        return self._taken


def _unified(name: str) -> str:
    return name.replace(".", "_")


def _new_topic_id(ctx: Context) -> UUID:
    while True:
        topic_id = random_id(ctx.rng)
        if ctx.overlay.topic_name(topic_id) is None:
            return topic_id


def _new_partitions(ctx: Context, pace: Pace, topic: NewTopic) -> Slices[list[Placed]]:
    """Replicas and first ISR of each partition; raises OperationError."""
    if topic.assignments:
        return (yield from _assigned(ctx, pace, topic))
    config = ctx.config
    count = config.num_partitions if topic.partitions == _DEFAULT else topic.partitions
    factor = topic.replication_factor
    if factor == _DEFAULT:
        factor = config.default_replication_factor
    if factor <= 0:
        raise OperationError(
            ApiError.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value; it is a "
            "non-positive value.",
        )
    if count <= 0:
        raise OperationError(
            ApiError.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    _check_count(count)
    rows = yield from place_partitions(ctx, pace, count, factor)
    return (yield from _with_isr(ctx, pace, rows))


def _assigned(ctx: Context, pace: Pace, topic: NewTopic) -> Slices[list[Placed]]:
    if topic.partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
        number = "numPartitions" if topic.partitions != _DEFAULT else "replicationFactor"
        raise OperationError(
            ApiError.INVALID_REQUEST,
            f"A manual partition assignment was specified, but {number} was not set to -1.",
        )
    _check_count(len(topic.assignments))
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise OperationError(
            ApiError.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    rows = [tuple(topic.assignments[i]) for i in range(len(topic.assignments))]
    return (yield from _by_hand(ctx, pace, rows, len(rows[0]), 0))


def _by_hand(
    ctx: Context, pace: Pace, rows: Sequence[Replicas], factor: int, first: int
) -> Slices[list[Placed]]:
    partitions = []
    for index, replicas in enumerate(rows, start=first):
        check_assignment(ctx, replicas, factor)
        isr = in_sync(ctx, replicas)
        if not isr:
            raise OperationError(
                ApiError.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} "
                "are fenced or in controlled shutdown.",
            )
        partitions.append((replicas, isr))
        if pace.is_over():
            yield
    return partitions


def _with_isr(ctx: Context, pace: Pace, rows: Sequence[Replicas]) -> Slices[list[Placed]]:
    partitions = []
    for replicas in rows:
        isr = in_sync(ctx, replicas)
        if replicas and not isr:
            raise OperationError(
                ApiError.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {len(replicas)} time(s): All brokers are "
                "currently fenced or in controlled shutdown.",
            )
        partitions.append((replicas, isr))
        if pace.is_over():
            yield
    return partitions


def _partition(
    ctx: Context, topic_id: UUID, index: int, replicas: Replicas, isr: Replicas
) -> PartitionRecord:
    level = ctx.metadata_version
    directories: tuple[UUID | None, ...] = ()
    if directories_supported(level):
        directories = tuple([ctx.default_directory(b) for b in replicas])
    return PartitionRecord(
        version=partition_version(level),
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )


def _check_count(partitions: int) -> None:
    if partitions > MAX_RECORDS_PER_BATCH:
        raise OperationError(
            ApiError.POLICY_VIOLATION,
            "Excessively large number of partitions per request: unable to perform excessively "
            "large batch operation.",
        )


# --------------------------------------------------------------------------- CreatePartitions


def create_partitions(ctx: Context, operation: Operation, topic: NewPartitions) -> Slices[None]:
    """Give a topic more partitions; raises OperationError.

    It refuses while a reassignment of the topic is under way: the number of replicas that a new
    partition needs is not defined then.
    """
    topic_id = ctx.overlay.topic_id(topic.name)
    if topic_id is None:
        raise unknown_topic(topic.name)
    present = ctx.overlay.partition_count(topic_id)
    additional = topic.count - present
    if additional == 0:
        raise OperationError(
            ApiError.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."
        )
    if additional < 0:
        raise OperationError(
            ApiError.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would "
            "not be an increase.",
        )
    _check_count(additional)
    partition = ctx.overlay.partitions.reader(topic_id)
    for index in range(present):
        state = partition(index)
        if state is not None and (state.adding or state.removing):  # KAFKA-9038
            raise OperationError(
                ApiError.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{topic.name}'.",
            )
        if operation.pace.is_over():
            yield
    first = ctx.overlay.partition(topic_id, 0)
    factor = len(first.replicas) if first is not None else 0
    if topic.assignments is None:
        placed = yield from place_partitions(ctx, operation.pace, additional, factor)
        partitions = yield from _with_isr(ctx, operation.pace, placed)
    else:
        if len(topic.assignments) != additional:
            raise OperationError(
                ApiError.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(topic.assignments)} assignment(s) were specified.",
            )
        rows = [tuple(row) for row in topic.assignments]
        partitions = yield from _by_hand(ctx, operation.pace, rows, factor, present)
    yield from operation.add_slices(
        _partition(ctx, topic_id, index, replicas, isr)
        for index, (replicas, isr) in enumerate(partitions, start=present)
    )


# --------------------------------------------------------------------------- DeleteTopics


def delete(ctx: Context, operation: Operation, topic: TopicRef) -> tuple[str, UUID]:
    """Delete a topic, its partitions and its settings; its name and id. Raises OperationError."""
    name = name_of(topic, ctx.overlay.topic_name)
    topic_id = ctx.overlay.topic_id(name)
    if topic_id is None:
        raise unknown_topic(name)
    operation.add(RemoveTopicRecord(topic_id=topic_id))
    return name, topic_id


def name_of(topic: TopicRef, find: Callable[[UUID], str | None]) -> str:
    """The name of a topic that is given by name or by id; raises OperationError."""
    if topic.id is None:
        if topic.name is None:
            raise OperationError(ApiError.INVALID_REQUEST, "Neither topic name nor id was given.")
        return topic.name
    if topic.name is not None:
        raise OperationError(
            ApiError.INVALID_REQUEST, "You may not specify both topic name and id."
        )
    name = find(topic.id)
    if name is None:
        raise OperationError(ApiError.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return name
