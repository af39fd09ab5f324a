"""DescribeTopicPartitions (75): topics a page at a time. Source: KIP-966."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from node.controller.errors import ApiError, OperationError
from node.controller.names import check_name
from node.controller.operations import TopicDescription, TopicRef
from node.driver.apis.call import Call
from node.driver.apis.fields import TOPIC_OPERATIONS, code, fields_of
from node.driver.apis.partition_view import INTERNAL_TOPICS, View
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.metadata.image import PartitionState
from node.wire.api import ApiKey

PARTITIONS_MAX: Final = 2000  # Kafka's max.request.partition.size.limit


@dataclass(frozen=True, slots=True)
class _Page:
    """Topics with some of their partitions, and where the next page begins."""

    topics: Sequence[tuple[TopicDescription, Sequence[int]]] = ()
    cursor: tuple[str, int] | None = None


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS, Listener.BROKER)
def describe_topic_partitions(serving: Serving, call: Call) -> None:
    """A page of partitions, topics sorted by name; the cursor says where the page begins."""
    body = call.body
    start = (body.cursor.topic_name, int(body.cursor.partition_index)) if body.cursor else ("", 0)
    names = {topic.name for topic in body.topics}
    if body.cursor and names and start[0] not in names:
        call.reject(f"the cursor is at topic {start[0]!r}, which is not asked for")
        return
    if body.cursor and start[1] < 0:
        call.reject(f"the cursor is at partition {start[1]}")
        return
    limit = min(PARTITIONS_MAX, int(body.response_partition_limit))
    serving.read(
        call,
        lambda: _page(serving, names, start, limit),
        lambda *_: _Page(),
        lambda page: _described(serving, call, page),
    )


def _page(serving: Serving, names: set[str], start: tuple[str, int], limit: int) -> _Page:
    wanted = sorted(name for name in names or serving.node.machine.image.topics if name >= start[0])
    topics: list[tuple[TopicDescription, Sequence[int]]] = []
    for name in wanted:
        if limit <= 0:
            return _Page(topics, (name, 0) if limit == 0 else None)
        (topic,) = serving.reader.describe_topics([TopicRef(name=name)])
        if topic.error:
            if names:
                topics.append((_unknown(name), ()))
            continue
        first = start[1] if name == start[0] else 0
        indexes = range(first, min(len(topic.partitions), first + limit))
        topics.append((topic, [index for index in indexes if index in topic.partitions]))
        if first + limit < len(topic.partitions):
            return _Page(topics, (name, first + limit))
        limit -= len(indexes)
    return _Page(topics)


def _unknown(name: str) -> TopicDescription:
    try:
        check_name(name)
    except OperationError as refusal:
        return TopicDescription(name, None, refusal.error)
    return TopicDescription(name, None, ApiError.UNKNOWN_TOPIC_OR_PARTITION)


def _described(serving: Serving, call: Call, page: _Page) -> Any:
    cursor = None
    if page.cursor is not None:
        name, index = page.cursor
        cursor = call.struct("Cursor", topic_name=name, partition_index=index)
    return call.struct(
        topics=tuple(
            [
                call.struct(
                    "DescribeTopicPartitionsResponseTopic",
                    **fields_of(topic.error),
                    name=topic.name,
                    topic_id=topic.topic_id,
                    is_internal=topic.name in INTERNAL_TOPICS,
                    partitions=tuple(
                        [
                            _described_partition(serving, call, index, topic.partitions[index])
                            for index in indexes
                        ]
                    ),
                    topic_authorized_operations=TOPIC_OPERATIONS,
                )
                for topic, indexes in page.topics
            ]
        ),
        next_cursor=cursor,
    )


def _described_partition(serving: Serving, call: Call, index: int, state: PartitionState) -> Any:
    view = View.of(serving, state)
    return call.struct(
        "DescribeTopicPartitionsResponsePartition",
        error_code=code(ApiError.NONE),
        partition_index=index,
        leader_id=view.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible_leaders,
        last_known_elr=state.last_known_leaders,
        offline_replicas=view.offline,
    )
