"""CreateTopics: what a new topic comes to. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from uuid import UUID

from node.controller.config_schema import check_setting
from node.controller.configs import check_size
from node.controller.errors import ApiError, OperationError
from node.controller.operations import NewTopic
from node.metadata.image import NO_LEADER, TOPIC
from node.metadata.records import MetadataRecord
from node.metadata.schemas import ConfigRecord, PartitionRecord, TopicRecord

MAX_RECORDS_PER_OPERATION = 10_000
_DEFAULT = -1
_MAX_NAME = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Replicas = tuple[int, ...]


def check_name(name: str) -> None:
    """Check a topic's name; raises OperationError(INVALID_TOPIC_EXCEPTION)."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > _MAX_NAME:
        problem = f"the length of '{name}' is longer than the max allowed length {_MAX_NAME}"
    elif not _NAME.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if problem is not None:
        raise OperationError(ApiError.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


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


def place_partitions(
    topic: NewTopic, broker_ids: Sequence[int], rng: Random
) -> tuple[Replicas, ...]:
    """The replicas of each partition: as assigned, else drawn from ``broker_ids`` in turn.

    With no brokers at all every partition gets no replicas (and so no leader): the metadata
    quorum can then be tested without brokers. Raises OperationError.
    """
    if topic.assignments:
        return _assigned(topic, broker_ids)
    partitions = 1 if topic.partitions == _DEFAULT else topic.partitions
    factor = 1 if topic.replication_factor == _DEFAULT else topic.replication_factor
    if partitions <= 0:
        raise OperationError(
            ApiError.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor <= 0:
        raise OperationError(
            ApiError.INVALID_REPLICATION_FACTOR,
            "Replication factor was set to an invalid non-positive value.",
        )
    _check_count(partitions)
    if not broker_ids:
        return ((),) * partitions
    if factor > len(broker_ids):
        raise OperationError(
            ApiError.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {len(broker_ids)} broker(s) are "
            "registered.",
        )
    first = rng.randrange(len(broker_ids))
    return tuple(
        tuple([broker_ids[(first + index + i) % len(broker_ids)] for i in range(factor)])
        for index in range(partitions)
    )


def topic_records(
    name: str, topic_id: UUID, partitions: Sequence[Replicas], configs: Mapping[str, str]
) -> list[MetadataRecord]:
    """All records of a new topic, in Kafka's order: topic, settings, partitions."""
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
    records += [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0] if replicas else NO_LEADER,
            leader_epoch=0,
            partition_epoch=0,
        )
        for index, replicas in enumerate(partitions)
    ]
    return records


def _assigned(topic: NewTopic, broker_ids: Sequence[int]) -> tuple[Replicas, ...]:
    if topic.partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
        number = "numPartitions" if topic.partitions != _DEFAULT else "replicationFactor"
        raise OperationError(
            ApiError.INVALID_REQUEST,
            f"A manual partition assignment was specified, but {number} was not set to -1.",
        )
    _check_count(len(topic.assignments))
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    partitions = tuple(tuple(topic.assignments[i]) for i in range(len(topic.assignments)))
    for index, replicas in enumerate(partitions):
        if not replicas:
            raise _bad_assignment(f"partition {index} has an empty replica list")
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(f"partition {index} has a broker twice: {list(replicas)}")
        if len(replicas) != len(partitions[0]):
            raise _bad_assignment(
                f"partition {index} has {len(replicas)} replicas, partition 0 {len(partitions[0])}"
            )
        unknown = [b for b in replicas if b < 0 or (broker_ids and b not in broker_ids)]
        if unknown:
            raise _bad_assignment(f"broker {unknown[0]} is not registered")
    return partitions


def _bad_assignment(problem: str) -> OperationError:
    return OperationError(
        ApiError.INVALID_REPLICA_ASSIGNMENT, f"Manual partition assignment: {problem}."
    )


def _check_count(partitions: int) -> None:
    if partitions > MAX_RECORDS_PER_OPERATION:
        raise too_large()


def too_large() -> OperationError:
    """The refusal of what would not fit into one batch."""
    return OperationError(
        ApiError.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    )
