"""FetchSnapshot between the core's messages and kio's entities.

Source: KIP-630, KIP-853 (version 1: directory id and endpoints).
"""

from __future__ import annotations

from typing import Any, Final

from node.core.messages import Error, FetchSnapshotRequest, FetchSnapshotResponse
from node.core.types import OffsetAndEpoch, ReplicaKey
from node.wire.quorum.parts import (
    EPOCH_NOT_SAID,
    METADATA_PARTITION,
    METADATA_TOPIC,
    answered_partition,
    asked_partition,
    code_of,
    error_of,
    is_top_level,
    known,
    leader_endpoint,
    node_endpoints,
    or_unknown,
)
from node.wire.structs import NO_THROTTLE, build

NO_SNAPSHOT: Final = OffsetAndEpoch(0, 0)  # what Kafka leaves there in an answer without one


def snapshot_request_to_wire(request: FetchSnapshotRequest, payload: type) -> Any:
    """The entity of a snapshot fetch."""
    end_offset, epoch = request.snapshot
    partition = build(
        payload,
        "PartitionSnapshot",
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=build(payload, "SnapshotId", end_offset=end_offset, epoch=epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topic = build(payload, "TopicSnapshot", name=METADATA_TOPIC, partitions=(partition,))
    return build(
        payload,
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=(topic,),
    )


def snapshot_request_from_wire(entity: Any) -> FetchSnapshotRequest:
    """Raises ValidationFailure."""
    data = asked_partition(entity.topics)
    return FetchSnapshotRequest(
        replica=ReplicaKey(entity.replica_id, getattr(data, "replica_directory_id", None)),
        epoch=data.current_leader_epoch,
        snapshot=OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        position=data.position,
        max_bytes=entity.max_bytes,
        cluster_id=entity.cluster_id,
    )


def snapshot_response_to_wire(
    response: FetchSnapshotResponse, payload: type, records: bytes
) -> Any:
    """The entity of a snapshot fetch's answer; ``records`` are the bytes of its range."""
    code = code_of(response.error)
    if is_top_level(response.error):
        return build(payload, throttle_time=NO_THROTTLE, error_code=code, topics=())
    end_offset, epoch = response.snapshot or NO_SNAPSHOT
    partition = build(
        payload,
        "PartitionSnapshot",
        index=METADATA_PARTITION,
        error_code=code,
        snapshot_id=build(payload, "SnapshotId", end_offset=end_offset, epoch=epoch),
        current_leader=build(
            payload,
            "LeaderIdAndEpoch",
            leader_id=or_unknown(response.leader_id),
            leader_epoch=response.epoch,
        ),
        size=response.size,
        position=response.position,
        unaligned_records=records,
    )
    topic = build(payload, "TopicSnapshot", name=METADATA_TOPIC, partitions=(partition,))
    return build(
        payload,
        throttle_time=NO_THROTTLE,
        error_code=code_of(Error.NONE),
        topics=(topic,),
        node_endpoints=node_endpoints(payload, response.leader_id, response.leader_endpoint),
    )


def snapshot_response_from_wire(entity: Any) -> FetchSnapshotResponse:
    """The answer; an error comes without a snapshot.

    Raises:
        RemoteProtocolError: It is about another partition.
    """
    data = answered_partition(entity, entity.topics)
    if data is None:
        return FetchSnapshotResponse(error_of(entity.error_code), EPOCH_NOT_SAID, None)
    top = error_of(entity.error_code)
    error = error_of(data.error_code) if top is Error.NONE else top
    leader_id = known(data.current_leader.leader_id)
    leader = FetchSnapshotResponse(
        error, data.current_leader.leader_epoch, leader_id, leader_endpoint(entity, leader_id)
    )
    if error is not Error.NONE:
        return leader
    return FetchSnapshotResponse(
        leader.error,
        leader.epoch,
        leader.leader_id,
        leader.leader_endpoint,
        snapshot=OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        size=data.size,
        position=data.position,
        data=data.unaligned_records,
    )
