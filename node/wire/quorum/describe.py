"""DescribeQuorum between the core's messages and kio's entities.

Source: KIP-595, KIP-836 (version 1: fetch times), KIP-853 (2: directory ids and endpoints).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from node.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Error,
    ReplicaStatus,
)
from node.core.types import Listener, ReplicaKey, Voter
from node.wire.quorum.parts import (
    EPOCH_NOT_SAID,
    METADATA_PARTITION,
    METADATA_TOPIC,
    UNKNOWN,
    answered_partition,
    asked_partition,
    code_of,
    error_of,
    is_top_level,
    known,
    listeners_to_wire,
    or_unknown,
)
from node.wire.structs import build, knows


def describe_request_to_wire(payload: type) -> Any:
    """The entity that asks for the metadata partition."""
    partition = build(payload, "PartitionData", partition_index=METADATA_PARTITION)
    topic = build(payload, "TopicData", topic_name=METADATA_TOPIC, partitions=(partition,))
    return build(payload, topics=(topic,))


def describe_request_from_wire(entity: Any) -> DescribeQuorumRequest:
    """Raises ValidationFailure."""
    asked_partition(entity.topics)
    return DescribeQuorumRequest()


def describe_response_to_wire(
    response: DescribeQuorumResponse, payload: type, voters: Iterable[Voter], listener_name: str
) -> Any:
    """The entity of the leader's view; ``voters`` say where the nodes are (version 2)."""
    code = code_of(response.error)
    message = None if response.error is Error.NONE else response.error.name
    if is_top_level(response.error):
        return build(payload, error_code=code, error_message=message, topics=(), nodes=())
    partition = build(
        payload,
        "PartitionData",
        partition_index=METADATA_PARTITION,
        error_code=code,
        error_message=message,
        leader_id=or_unknown(response.leader_id),
        leader_epoch=response.epoch,
        high_watermark=or_unknown(response.high_watermark),
        current_voters=tuple(_replica(payload, status) for status in response.voters),
        observers=tuple(_replica(payload, status) for status in response.observers),
    )
    topic = build(payload, "TopicData", topic_name=METADATA_TOPIC, partitions=(partition,))
    return build(
        payload,
        error_code=code_of(Error.NONE),
        error_message=None,
        topics=(topic,),
        nodes=_nodes(payload, voters, listener_name),
    )


def describe_response_from_wire(entity: Any) -> DescribeQuorumResponse:
    """Raises RemoteProtocolError."""
    data = answered_partition(entity, entity.topics)
    if data is None:
        return DescribeQuorumResponse(error_of(entity.error_code), EPOCH_NOT_SAID, None)
    top = error_of(entity.error_code)
    return DescribeQuorumResponse(
        error=error_of(data.error_code) if top is Error.NONE else top,
        epoch=data.leader_epoch,
        leader_id=known(data.leader_id),
        high_watermark=known(data.high_watermark),
        voters=tuple(_status(replica) for replica in data.current_voters),
        observers=tuple(_status(replica) for replica in data.observers),
    )


def _nodes(payload: type, voters: Iterable[Voter], listener_name: str) -> Any:
    if not knows(payload, None, "nodes"):
        return ()
    return tuple(
        build(
            payload,
            "Node",
            node_id=voter.key.id,
            listeners=listeners_to_wire(
                payload, voter.listeners or (Listener(listener_name, voter.endpoint),)
            ),
        )
        for voter in voters
    )


def _replica(payload: type, status: ReplicaStatus) -> Any:
    return build(
        payload,
        "ReplicaState",
        replica_id=status.key.id,
        replica_directory_id=status.key.directory_id,
        log_end_offset=or_unknown(status.log_end_offset),
        last_fetch_timestamp=or_unknown(status.last_fetch_ms),
        last_caught_up_timestamp=or_unknown(status.last_caught_up_ms),
    )


def _status(replica: Any) -> ReplicaStatus:
    return ReplicaStatus(
        ReplicaKey(replica.replica_id, getattr(replica, "replica_directory_id", None)),
        known(replica.log_end_offset),
        known(getattr(replica, "last_fetch_timestamp", UNKNOWN)),
        known(getattr(replica, "last_caught_up_timestamp", UNKNOWN)),
    )
