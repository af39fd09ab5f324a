"""Asks a live controller to move partition 0 of topic ``t``, what of it moves, and for more."""

from __future__ import annotations

from typing import Final

from kio.schema.alter_partition_reassignments.v0 import request as moves
from kio.schema.create_partitions.v3 import request as growths
from kio.schema.list_partition_reassignments.v0 import request as listings
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from harness.kafka.client import REQUEST_TIMEOUT
from harness.kafka.route import no_error, request
from node.wire.network import Caller

TOPIC: Final = TopicName("t")
_INDEX: Final = i32(0)


async def move(connection: Caller, *replicas: int) -> int:
    """Have the partition move to these brokers, or to none any more; give the error."""
    partition = moves.ReassignablePartition(
        partition_index=_INDEX, replicas=tuple(map(BrokerId, replicas)) or None
    )
    topic = moves.ReassignableTopic(name=TOPIC, partitions=(partition,))
    wanted = moves.AlterPartitionReassignmentsRequest(timeout=REQUEST_TIMEOUT, topics=(topic,))
    told = no_error(await request(connection, wanted))
    (row,) = told.responses[0].partitions
    return int(row.error_code)


async def moving(connection: Caller, *, by_name: bool = False) -> list[tuple[list[int], list[int]]]:
    """List who is added to and removed from each partition that moves; or of that one alone."""
    one = listings.ListPartitionReassignmentsTopics(name=TOPIC, partition_indexes=(_INDEX,))
    topics = (one,) if by_name else None
    wanted = listings.ListPartitionReassignmentsRequest(timeout=REQUEST_TIMEOUT, topics=topics)
    told = no_error(await request(connection, wanted))
    return [
        (list(map(int, row.adding_replicas)), list(map(int, row.removing_replicas)))
        for topic in told.topics
        for row in topic.partitions
    ]


async def grow(connection: Caller, count: int) -> list[int]:
    """Give the topic more partitions; give the errors."""
    topic = growths.CreatePartitionsTopic(name=TOPIC, count=i32(count), assignments=None)
    wanted = growths.CreatePartitionsRequest(
        topics=(topic,), timeout=REQUEST_TIMEOUT, validate_only=False
    )
    told = await request(connection, wanted)
    return [int(row.error_code) for row in told.results]
