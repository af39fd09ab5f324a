"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from node.controller.errors import ApiError
from node.controller.operations import CreateResult, DeleteResult, NewTopic, TopicRef
from node.controller.partition_operations import NewPartitions, NewPartitionsResult
from node.driver.apis.call import Call
from node.driver.apis.configs import TOPIC_CONFIG
from node.driver.apis.fields import error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey


@serves(ApiKey.CREATE_TOPICS, Listener.CONTROLLER, forwarded=True)
def create_topics(serving: Serving, call: Call) -> None:
    """KIP-4; topic ids since version 7 (KIP-516)."""
    topics = [
        NewTopic(
            name=topic.name,
            partitions=int(topic.num_partitions),
            replication_factor=int(topic.replication_factor),
            assignments={
                int(a.partition_index): tuple(map(int, a.broker_ids)) for a in topic.assignments
            },
            configs={config.name: config.value for config in topic.configs},
        )
        for topic in call.body.topics
    ]

    def refused(error: ApiError, message: str) -> tuple[CreateResult, ...]:
        return tuple([CreateResult(topic.name, None, error, message) for topic in topics])

    def encode(rows: Sequence[CreateResult]) -> Any:
        return call.struct(topics=tuple([_created(call, row) for row in rows]))

    serving.write(
        call,
        lambda c: c.long.create_topics(topics, validate_only=call.body.validate_only),
        refused,
        encode,
    )


@serves(ApiKey.DELETE_TOPICS, Listener.CONTROLLER, forwarded=True)
def delete_topics(serving: Serving, call: Call) -> None:
    """KIP-4; by id since version 6 (KIP-516)."""
    if hasattr(call.body, "topics"):
        topics = [TopicRef(topic.name, topic.topic_id) for topic in call.body.topics]
    else:
        topics = [TopicRef(name) for name in call.body.topic_names]

    def refused(error: ApiError, message: str) -> tuple[DeleteResult, ...]:
        return tuple([DeleteResult(topic.name, topic.id, error, message) for topic in topics])

    def encode(rows: Sequence[DeleteResult]) -> Any:
        return call.struct(
            responses=tuple(
                [
                    call.struct(
                        "DeletableTopicResult",
                        name=row.name,
                        topic_id=row.topic_id,
                        **error_fields(row),
                    )
                    for row in rows
                ]
            )
        )

    serving.write(call, lambda c: c.long.delete_topics(topics), refused, encode)


@serves(ApiKey.CREATE_PARTITIONS, Listener.CONTROLLER, forwarded=True)
def create_partitions(serving: Serving, call: Call) -> None:
    """KIP-195."""
    topics = [
        NewPartitions(
            name=topic.name,
            count=int(topic.count),
            assignments=None
            if topic.assignments is None
            else [tuple(map(int, row.broker_ids)) for row in topic.assignments],
        )
        for topic in call.body.topics
    ]

    def refused(error: ApiError, message: str) -> tuple[NewPartitionsResult, ...]:
        return tuple([NewPartitionsResult(topic.name, error, message) for topic in topics])

    def encode(rows: Sequence[NewPartitionsResult]) -> Any:
        return call.struct(
            results=tuple(
                [
                    call.struct("CreatePartitionsTopicResult", name=row.name, **error_fields(row))
                    for row in rows
                ]
            )
        )

    serving.write(
        call,
        lambda c: c.long.create_partitions(topics, validate_only=call.body.validate_only),
        refused,
        encode,
    )


def _created(call: Call, row: CreateResult) -> Any:
    return call.struct(
        "CreatableTopicResult",
        name=row.name,
        topic_id=row.topic_id,
        num_partitions=row.partitions,
        replication_factor=row.replication_factor,
        configs=None if row.error else _created_configs(call, row.configs),
        **error_fields(row),
    )


def _created_configs(call: Call, configs: Mapping[str, str]) -> tuple[Any, ...] | None:
    if not call.knows("CreatableTopicResult", "configs"):
        return None
    return tuple(
        [
            call.struct(
                "CreatableTopicConfigs",
                name=name,
                value=value,
                read_only=False,
                config_source=TOPIC_CONFIG,
                is_sensitive=False,
            )
            for name, value in sorted(configs.items())
        ]
    )
