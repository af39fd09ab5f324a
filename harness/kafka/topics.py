"""Topics whose replicas a client places itself."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32

from harness.kafka.client import REQUEST_TIMEOUT
from harness.kafka.route import Route, request, the_row
from node.wire.network import Caller


async def create_by_hand(
    route: Route,
    name: str,
    replicas: Sequence[int],
    by_s: float,
    *,
    partitions: int = 1,
    index: int = 0,
) -> None:
    """CreateTopics of one topic whose partitions are on these brokers; raises Outcome.

    Of the partition ``index`` the first of them is to lead, of each after it the next one.
    """
    wanted = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name=TopicName(route.cluster.prefix + name),
                num_partitions=i32(-1),
                replication_factor=i16(-1),
                assignments=tuple(
                    CreatableReplicaAssignment(
                        partition_index=i32(each),
                        broker_ids=tuple(map(BrokerId, _turned(replicas, each - index))),
                    )
                    for each in range(partitions)
                ),
                configs=(),
            ),
        ),
        timeout=REQUEST_TIMEOUT,
        validate_only=False,
    )

    async def attempt(connection: Caller) -> None:
        the_row((await request(connection, wanted)).topics)

    await route.to_change(attempt, by_s)


def _turned(replicas: Sequence[int], by: int) -> list[int]:
    """Turn a list so that another one is the first."""
    by %= len(replicas)
    return [*replicas[by:], *replicas[:by]]
