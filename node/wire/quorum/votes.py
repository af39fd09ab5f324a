"""Vote, BeginQuorumEpoch and EndQuorumEpoch between the core's messages and kio's entities.

Source: KIP-595, KIP-853 (version 1: directory ids, endpoints), KIP-996 (Vote version 2: pre-vote).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from node.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    QuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey
from node.wire.errors import UnsupportedVersionError, ValidationFailure
from node.wire.quorum.parts import (
    EPOCH_NOT_SAID,
    METADATA_PARTITION,
    METADATA_TOPIC,
    announced_endpoint,
    answered_partition,
    asked_partition,
    code_of,
    error_of,
    is_top_level,
    known,
    leader_endpoint,
    leader_endpoints,
    node_endpoints,
    or_unknown,
    replica_key,
)
from node.wire.structs import build, knows

EndpointOf = Callable[[int], Endpoint | None]


def vote_request_to_wire(request: VoteRequest, payload: type) -> Any:
    """Raises UnsupportedVersionError for a pre-vote in a version without (before 2)."""
    if request.pre_vote and not knows(payload, "PartitionData", "pre_vote"):
        raise UnsupportedVersionError("a pre-vote needs version 2 of Vote")
    voter = request.voter or ReplicaKey(or_unknown(None))
    return build(
        payload,
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=_topics(
            payload,
            replica_epoch=request.epoch,
            replica_id=request.candidate.id,
            replica_directory_id=request.candidate.directory_id,
            voter_directory_id=voter.directory_id,
            last_offset_epoch=request.last.epoch,
            last_offset=request.last.offset,
            pre_vote=request.pre_vote,
        ),
    )


def vote_request_from_wire(entity: Any) -> VoteRequest:
    """Raises ValidationFailure."""
    data = asked_partition(entity.topics)
    return VoteRequest(
        candidate=ReplicaKey(data.replica_id, getattr(data, "replica_directory_id", None)),
        epoch=data.replica_epoch,
        last=OffsetAndEpoch(data.last_offset, data.last_offset_epoch),
        pre_vote=getattr(data, "pre_vote", False),
        voter=_addressee(entity, data),
        cluster_id=entity.cluster_id,
    )


def vote_response_to_wire(response: VoteResponse, payload: type) -> Any:
    """The entity of a vote's answer."""
    return _response(response, payload, vote_granted=response.granted)


def vote_response_from_wire(entity: Any) -> VoteResponse:
    """Raises RemoteProtocolError."""
    data = answered_partition(entity, entity.topics)
    if data is None:
        return VoteResponse(error_of(entity.error_code), EPOCH_NOT_SAID, None, granted=False)
    leader_id = known(data.leader_id)
    return VoteResponse(
        _error(entity, data),
        data.leader_epoch,
        leader_id,
        data.vote_granted,
        leader_endpoint(entity, leader_id),
    )


def begin_request_to_wire(
    request: BeginQuorumEpochRequest, payload: type, listener_name: str
) -> Any:
    """The entity of a leader's announcement."""
    voter = request.voter or ReplicaKey(or_unknown(None))
    return build(
        payload,
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=_topics(
            payload,
            voter_directory_id=voter.directory_id,
            leader_id=request.leader_id,
            leader_epoch=request.epoch,
        ),
        leader_endpoints=leader_endpoints(payload, request.leader_endpoint, listener_name),
    )


def begin_request_from_wire(
    entity: Any, endpoint_of: EndpointOf, listener_name: str
) -> BeginQuorumEpochRequest:
    """The announcement; where version 0 names no endpoint, ``endpoint_of`` knows it.

    Raises:
        ValidationFailure: It is about another partition, or the leader's endpoint is unknown.
    """
    data = asked_partition(entity.topics)
    endpoint = announced_endpoint(entity, listener_name) or endpoint_of(data.leader_id)
    if endpoint is None:
        raise ValidationFailure(
            int(Error.INVALID_REQUEST), f"no endpoint is known for leader {data.leader_id}"
        )
    return BeginQuorumEpochRequest(
        leader_id=data.leader_id,
        epoch=data.leader_epoch,
        leader_endpoint=endpoint,
        voter=_addressee(entity, data),
        cluster_id=entity.cluster_id,
    )


def end_request_to_wire(request: EndQuorumEpochRequest, payload: type, listener_name: str) -> Any:
    """The entity of a leader's resignation; version 0 names its successors by id only."""
    by_key = knows(payload, "PartitionData", "preferred_candidates")
    candidates = by_key and tuple(
        build(payload, "ReplicaInfo", candidate_id=k.id, candidate_directory_id=k.directory_id)
        for k in request.preferred
    )
    return build(
        payload,
        cluster_id=request.cluster_id,
        topics=_topics(
            payload,
            leader_id=request.leader_id,
            leader_epoch=request.epoch,
            preferred_candidates=candidates,
            preferred_successors=tuple(key.id for key in request.preferred),
        ),
        leader_endpoints=leader_endpoints(payload, request.leader_endpoint, listener_name),
    )


def end_request_from_wire(
    entity: Any, endpoint_of: EndpointOf, listener_name: str
) -> EndQuorumEpochRequest:
    """Raises ValidationFailure."""
    data = asked_partition(entity.topics)
    if hasattr(data, "preferred_candidates"):
        preferred = tuple(
            ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in data.preferred_candidates
        )
    else:
        preferred = tuple(ReplicaKey(id_) for id_ in data.preferred_successors)
    return EndQuorumEpochRequest(
        leader_id=data.leader_id,
        epoch=data.leader_epoch,
        preferred=preferred,
        leader_endpoint=(announced_endpoint(entity, listener_name) or endpoint_of(data.leader_id)),
        cluster_id=entity.cluster_id,
    )


def epoch_response_to_wire(response: QuorumEpochResponse, payload: type) -> Any:
    """The entity that answers BeginQuorumEpoch or EndQuorumEpoch."""
    return _response(response, payload)


def epoch_response_from_wire(entity: Any) -> QuorumEpochResponse:
    """Raises RemoteProtocolError."""
    data = answered_partition(entity, entity.topics)
    if data is None:
        return QuorumEpochResponse(error_of(entity.error_code), EPOCH_NOT_SAID, None)
    leader_id = known(data.leader_id)
    return QuorumEpochResponse(
        _error(entity, data), data.leader_epoch, leader_id, leader_endpoint(entity, leader_id)
    )


def _response(response: VoteResponse | QuorumEpochResponse, payload: type, **more: Any) -> Any:
    code = code_of(response.error)
    if is_top_level(response.error):
        return build(payload, error_code=code, topics=())
    return build(
        payload,
        error_code=code_of(Error.NONE),
        topics=_topics(
            payload,
            error_code=code,
            leader_id=or_unknown(response.leader_id),
            leader_epoch=response.epoch,
            **more,
        ),
        node_endpoints=node_endpoints(payload, response.leader_id, response.leader_endpoint),
    )


def _topics(payload: type, **partition: Any) -> Any:
    data = build(payload, "PartitionData", partition_index=METADATA_PARTITION, **partition)
    return (build(payload, "TopicData", topic_name=METADATA_TOPIC, partitions=(data,)),)


def _addressee(entity: Any, data: Any) -> ReplicaKey | None:
    return replica_key(
        getattr(entity, "voter_id", or_unknown(None)), getattr(data, "voter_directory_id", None)
    )


def _error(entity: Any, data: Any) -> Error:
    top = error_of(entity.error_code)
    return error_of(data.error_code) if top is Error.NONE else top
