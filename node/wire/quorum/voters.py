"""Add-, Remove- and UpdateRaftVoter between the core's messages and kio's entities.

Source: KIP-853; version 1 of AddRaftVoter says when to answer (KAFKA-18887 and later).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from node.core.messages import (
    AddVoterRequest,
    Error,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from node.core.types import Endpoint, Listener, ReplicaKey, VersionRange
from node.wire.errors import RemoteProtocolError, ValidationFailure
from node.wire.quorum.parts import (
    EPOCH_NOT_SAID,
    PORT_MAX,
    code_of,
    error_of,
    known,
    listeners_to_wire,
    or_unknown,
)
from node.wire.structs import NO_THROTTLE, build, knows

_MILLISECOND: Final = timedelta(milliseconds=1)


def add_request_to_wire(request: AddVoterRequest, payload: type) -> Any:
    """The entity that asks to make an observer a voter."""
    return build(
        payload,
        cluster_id=request.cluster_id,
        timeout=timedelta(milliseconds=request.timeout_ms),
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=listeners_to_wire(payload, request.listeners),
        ack_when_committed=request.ack_when_committed,
    )


def add_request_from_wire(entity: Any, listener_name: str) -> AddVoterRequest:
    """Raises ValidationFailure: the voter has no listener of that name."""
    return AddVoterRequest(
        voter=ReplicaKey(entity.voter_id, entity.voter_directory_id),
        listeners=_listeners(entity, listener_name),
        timeout_ms=entity.timeout // _MILLISECOND,
        cluster_id=entity.cluster_id,
        ack_when_committed=getattr(entity, "ack_when_committed", True),
    )


def remove_request_to_wire(request: RemoveVoterRequest, payload: type) -> Any:
    """The entity that asks to remove a voter."""
    return build(
        payload,
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
    )


def remove_request_from_wire(entity: Any) -> RemoveVoterRequest:
    """The removal that an entity asks for."""
    return RemoveVoterRequest(
        ReplicaKey(entity.voter_id, entity.voter_directory_id), entity.cluster_id
    )


def update_request_to_wire(request: UpdateVoterRequest, payload: type) -> Any:
    """The entity by which a voter tells what is new about it."""
    lowest, highest = request.kraft_versions
    return build(
        payload,
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=listeners_to_wire(payload, request.listeners),
        k_raft_version_feature=build(
            payload,
            "KRaftVersionFeature",
            min_supported_version=lowest,
            max_supported_version=highest,
        ),
    )


def update_request_from_wire(entity: Any, listener_name: str) -> UpdateVoterRequest:
    """Raises ValidationFailure: the voter has no listener of that name."""
    feature = entity.k_raft_version_feature
    return UpdateVoterRequest(
        voter=ReplicaKey(entity.voter_id, entity.voter_directory_id),
        epoch=entity.current_leader_epoch,
        listeners=_listeners(entity, listener_name),
        kraft_versions=VersionRange(feature.min_supported_version, feature.max_supported_version),
        cluster_id=entity.cluster_id,
    )


def change_response_to_wire(response: VoterChangeResponse, payload: type) -> Any:
    """The entity that answers any of the three; only UpdateRaftVoter's says who leads."""
    return build(
        payload,
        throttle_time=NO_THROTTLE,
        error_code=code_of(response.error),
        error_message=response.message,
        **current_leader(payload, response.epoch, response.leader_id, response.leader_endpoint),
    )


def change_response_from_wire(entity: Any) -> VoterChangeResponse:
    """The answer; without a leader where the API does not name one.

    Raises:
        RemoteProtocolError: The leader's port is none.
    """
    error, message = error_of(entity.error_code), getattr(entity, "error_message", None)
    leader = getattr(entity, "current_leader", None)
    if leader is None:
        return VoterChangeResponse(error, EPOCH_NOT_SAID, None, None, message)
    leader_id = known(leader.leader_id)
    endpoint = None
    if leader_id is not None and leader.host:
        if not 0 <= leader.port <= PORT_MAX:
            raise RemoteProtocolError(f"leader {leader_id} is said to be at port {leader.port}")
        endpoint = Endpoint(leader.host, leader.port)
    return VoterChangeResponse(error, leader.leader_epoch, leader_id, endpoint, message)


def current_leader(
    payload: type,
    epoch: int = EPOCH_NOT_SAID,
    leader_id: int | None = None,
    endpoint: Endpoint | None = None,
) -> dict[str, Any]:
    """The field ``current_leader`` of an answer that has it."""
    if not knows(payload, None, "current_leader"):
        return {}
    if leader_id is None or endpoint is None:
        endpoint = Endpoint("", 0)
    leader = build(
        payload,
        "CurrentLeader",
        leader_id=or_unknown(leader_id),
        leader_epoch=epoch,
        host=endpoint.host,
        port=endpoint.port,
    )
    return {"current_leader": leader}


def _listeners(entity: Any, listener_name: str) -> tuple[Listener, ...]:
    """The voter's listeners, the one that the quorum speaks to first; the last of a name counts."""
    named = {x.name: Listener(x.name, Endpoint(x.host, x.port)) for x in entity.listeners}
    first = named.pop(listener_name, None)
    if first is None:
        raise ValidationFailure(
            int(Error.INVALID_REQUEST),
            f"voter {entity.voter_id} has no listener {listener_name}: "
            f"add one to its {sorted(named)}",
        )
    return (first, *named.values())
