"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46).

Source: KIP-183, KIP-460 (unclean elections), KIP-455, KIP-860.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.controller.errors import ApiError
from node.controller.partition_operations import (
    ElectionType,
    ElectLeadersReply,
    OngoingReassignment,
    PartitionResult,
    Reassignment,
    ReassignmentsReply,
    all_refused,
)
from node.driver.apis.call import Call
from node.driver.apis.fields import MESSAGE_CHARS_MAX, cut, error_fields, fields_of
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey
from node.wire.election_bytes import Row, encode_elect_leaders_response


@serves(ApiKey.ELECT_LEADERS, Listener.CONTROLLER, forwarded=True)
def elect_leaders(serving: Serving, call: Call) -> None:
    """Elect the preferred leaders, or any replica where none is in sync."""
    body = call.body
    election_type = int(getattr(body, "election_type", ElectionType.PREFERRED))
    partitions: dict[str, list[int]] | None = None
    if body.topic_partitions is not None:
        partitions = {}
        for topic in body.topic_partitions:
            partitions.setdefault(topic.topic, []).extend(map(int, topic.partitions))

    def refused(error: ApiError, message: str) -> ElectLeadersReply:
        rows = all_refused(partitions or {}, error, message)
        return ElectLeadersReply(error, message, rows)

    def encode(reply: ElectLeadersReply) -> bytes:
        topics = {name: _rows(results) for name, results in reply.topics.items()}
        return encode_elect_leaders_response(call.version, int(reply.error), topics)

    serving.write(call, lambda c: c.long.elect_leaders(election_type, partitions), refused, encode)


def _rows(results: Sequence[PartitionResult]) -> Sequence[Row]:
    """The partitions of a topic as they are answered, their messages cut so that they fit."""
    if all(len(each.message or "") <= MESSAGE_CHARS_MAX for each in results):
        return results
    return [(each.partition, each.error, cut(each.message)) for each in results]


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, Listener.CONTROLLER, forwarded=True)
def alter_partition_reassignments(serving: Serving, call: Call) -> None:
    """Move partitions to other replicas, or stop moving them."""
    body = call.body
    may_change_factor = getattr(body, "allow_replication_factor_change", True)
    topics: defaultdict[str, list[Reassignment]] = defaultdict(list)
    for topic in body.topics:
        topics[topic.name] += [
            Reassignment(
                int(partition.partition_index),
                None if partition.replicas is None else tuple(map(int, partition.replicas)),
            )
            for partition in topic.partitions
        ]

    def refused(error: ApiError, message: str) -> ReassignmentsReply:
        indexes = {name: [each.partition for each in rows] for name, rows in topics.items()}
        return ReassignmentsReply(error, message, all_refused(indexes, error, message))

    def encode(reply: ReassignmentsReply) -> Any:
        return call.struct(
            allow_replication_factor_change=may_change_factor,
            responses=tuple(
                [
                    call.struct(
                        "ReassignableTopicResponse",
                        name=name,
                        partitions=tuple(
                            [
                                call.struct(
                                    "ReassignablePartitionResponse",
                                    partition_index=result.partition,
                                    **error_fields(result),
                                )
                                for result in results
                            ]
                        ),
                    )
                    for name, results in reply.topics.items()
                ]
            ),
            **error_fields(reply),
        )

    serving.write(
        call,
        lambda c: c.long.alter_partition_reassignments(
            dict(topics), allow_replication_factor_change=may_change_factor
        ),
        refused,
        encode,
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """The reassignments under way, or why they are not told."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    topics: Mapping[str, Sequence[OngoingReassignment]] = field(default_factory=dict)


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, Listener.CONTROLLER, forwarded=True)
def list_partition_reassignments(serving: Serving, call: Call) -> None:
    """List the partitions that are being moved; a controller answers from committed state."""
    topics: dict[str, list[int]] | None = None
    if call.body.topics is not None:
        topics = {}
        for topic in call.body.topics:
            topics.setdefault(topic.name, []).extend(map(int, topic.partition_indexes))

    def look() -> _Listed:
        return _Listed(topics=serving.reader.list_partition_reassignments(topics))

    serving.read(call, look, _Listed, lambda listed: _listed(call, listed))


def _listed(call: Call, listed: _Listed) -> Any:
    return call.struct(
        **fields_of(listed.error, listed.message),
        topics=tuple(
            [
                call.struct(
                    "OngoingTopicReassignment",
                    name=name,
                    partitions=tuple(
                        [
                            call.struct(
                                "OngoingPartitionReassignment",
                                partition_index=row.partition,
                                replicas=row.replicas,
                                adding_replicas=row.adding_replicas,
                                removing_replicas=row.removing_replicas,
                            )
                            for row in rows
                        ]
                    ),
                )
                for name, rows in listed.topics.items()
            ]
        ),
    )
