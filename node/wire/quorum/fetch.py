"""Fetch of the metadata log between the core's messages and kio's entities.

Source: KIP-595, KIP-516 (version 13: topic ids), KIP-903 (15: replica state), KIP-853 (17:
directory id), KIP-1166 (18: high watermark).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from node.core.messages import Batch, Error, FetchRequest, FetchResponse
from node.core.types import OffsetAndEpoch, ReplicaKey
from node.wire.errors import ValidationFailure
from node.wire.quorum.parts import (
    EPOCH_NOT_SAID,
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    UNKNOWN,
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
from node.wire.structs import NO_THROTTLE, build, knows

ParseRecords = Callable[[bytes], Iterable[Batch]]

NEVER_WAKE: Final = 2**63 - 1  # "my version knows no high watermark"
_MILLISECOND: Final = timedelta(milliseconds=1)


def fetch_request_to_wire(request: FetchRequest, payload: type) -> Any:
    """The entity of a fetch; fields as Kafka's own replica sets them."""
    high_watermark = NEVER_WAKE if request.high_watermark is None else request.high_watermark
    partition = build(
        payload,
        "FetchPartition",
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=0,  # Kafka's replica sets only the limit of the whole request
        replica_directory_id=request.replica.directory_id,
        high_watermark=high_watermark,
    )
    topic = build(
        payload,
        "FetchTopic",
        topic=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        partitions=(partition,),
    )
    fields: dict[str, Any] = {"replica_id": request.replica.id}
    if not knows(payload, None, "replica_id"):
        state = build(payload, "ReplicaState", replica_id=request.replica.id)
        fields = {"replica_state": state}
    return build(
        payload,
        cluster_id=request.cluster_id,
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=(topic,),
        forgotten_topics_data=(),
        **fields,
    )


def fetch_request_from_wire(entity: Any) -> FetchRequest:
    """Raises ValidationFailure."""
    data = asked_partition(entity.topics)
    state = getattr(entity, "replica_state", entity)
    high_watermark: int | None = getattr(data, "high_watermark", NEVER_WAKE)
    if high_watermark == NEVER_WAKE:
        high_watermark = None
    elif high_watermark == UNKNOWN:
        high_watermark = 0  # knows of nothing committed: wake it for anything
    elif high_watermark is not None and high_watermark < 0:
        raise ValidationFailure(int(Error.INVALID_REQUEST), f"a high watermark of {high_watermark}")
    return FetchRequest(
        replica=ReplicaKey(state.replica_id, getattr(data, "replica_directory_id", None)),
        epoch=data.current_leader_epoch,
        offset=data.fetch_offset,
        last_fetched_epoch=data.last_fetched_epoch,
        max_wait_ms=entity.max_wait // _MILLISECOND,
        max_bytes=entity.max_bytes,
        high_watermark=high_watermark,
        cluster_id=entity.cluster_id,
    )


def fetch_response_to_wire(response: FetchResponse, payload: type, records: bytes) -> Any:
    """The entity of a fetch's answer; ``records`` are what the log holds of its range."""
    code = code_of(response.error)
    if is_top_level(response.error):
        return build(payload, throttle_time=NO_THROTTLE, error_code=code, responses=())
    fields: dict[str, Any] = {}
    if response.diverging is not None:
        end_offset, epoch = response.diverging
        fields["diverging_epoch"] = build(
            payload, "EpochEndOffset", epoch=epoch, end_offset=end_offset
        )
    if response.snapshot is not None:
        end_offset, epoch = response.snapshot
        fields["snapshot_id"] = build(payload, "SnapshotId", end_offset=end_offset, epoch=epoch)
    partition = build(
        payload,
        "PartitionData",
        partition_index=METADATA_PARTITION,
        error_code=code,
        high_watermark=or_unknown(response.high_watermark),
        log_start_offset=response.log_start_offset,
        current_leader=build(
            payload,
            "LeaderIdAndEpoch",
            leader_id=or_unknown(response.leader_id),
            leader_epoch=response.epoch,
        ),
        aborted_transactions=(),
        records=records,
        **fields,
    )
    topic = build(
        payload,
        "FetchableTopicResponse",
        topic=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        partitions=(partition,),
    )
    return build(
        payload,
        throttle_time=NO_THROTTLE,
        error_code=code_of(Error.NONE),
        responses=(topic,),
        node_endpoints=node_endpoints(payload, response.leader_id, response.leader_endpoint),
    )


def fetch_response_from_wire(entity: Any, parse_records: ParseRecords) -> FetchResponse:
    """The answer, its records cut into batches by ``parse_records``, whose errors pass through.

    Raises:
        RemoteProtocolError: It is about another partition.
    """
    data = answered_partition(entity, entity.responses)
    if data is None:
        return FetchResponse(error_of(entity.error_code), EPOCH_NOT_SAID, None)
    top = error_of(entity.error_code)
    leader_id = known(data.current_leader.leader_id)
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    return FetchResponse(
        error=error_of(data.error_code) if top is Error.NONE else top,
        epoch=data.current_leader.leader_epoch,
        leader_id=leader_id,
        high_watermark=known(data.high_watermark),
        log_start_offset=data.log_start_offset,
        leader_endpoint=leader_endpoint(entity, leader_id),
        diverging=(
            OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None
        ),
        snapshot=(
            OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
            if snapshot.end_offset >= 0 and snapshot.epoch >= 0
            else None
        ),
        batches=tuple(parse_records(data.records)) if data.records else (),
    )
