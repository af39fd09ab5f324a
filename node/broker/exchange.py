"""Registrations and heartbeats as Kafka's messages: plain data in, kio's entities on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kio.static.protocol import RequestPayload

from node.broker.controller_channel import MakeRequest
from node.broker.events import (
    HeartbeatAnswered,
    RegistrationAnswered,
    SendFailed,
    SendHeartbeat,
    SendRegistration,
)
from node.controller.broker_operations import BrokerHeartbeatRequest, BrokerRegistrationRequest
from node.metadata.schemas import BrokerEndpoint, BrokerFeature
from node.wire.api import ApiKey
from node.wire.errors import WireError
from node.wire.payloads import ApiSchema
from node.wire.structs import build

_FIRST_WITH_OPTIONAL_FEATURES = 4  # before, one with a lowest level of 0 cannot be told (KIP-1022)


class Channel(Protocol):
    """The way to the active controller; see ``ControllerChannel``."""

    async def request(self, api_key: int, make: MakeRequest, timeout_s: float) -> Any:
        """Ask the active controller; raises WireError."""
        ...

    def close(self) -> None:
        """Drop the connection. Idempotent."""
        ...


async def exchange(
    channel: Channel, send: SendRegistration | SendHeartbeat, timeout_s: float
) -> RegistrationAnswered | HeartbeatAnswered | SendFailed:
    """Send one of the lifecycle's requests and wait for what comes of it; never a WireError."""
    try:
        if isinstance(send, SendRegistration):
            registration = send.request
            answer = await channel.request(
                ApiKey.BROKER_REGISTRATION,
                lambda schema: registration_entity(schema, registration),
                timeout_s,
            )
            return RegistrationAnswered(int(answer.error_code), int(answer.broker_epoch))
        heartbeat = send.request
        answer = await channel.request(
            ApiKey.BROKER_HEARTBEAT,
            lambda schema: heartbeat_entity(schema, heartbeat),
            timeout_s,
        )
    except WireError as error:
        return SendFailed(str(error))
    return HeartbeatAnswered(
        int(answer.error_code),
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )


def listener_structs(request: type, listeners: Iterable[BrokerEndpoint]) -> tuple[Any, ...]:
    """Build the listeners of a node, as the registration of a broker or controller tells them."""
    return tuple(
        build(
            request,
            "Listener",
            name=each.name,
            host=each.host,
            port=each.port,
            security_protocol=each.security_protocol,
        )
        for each in listeners
    )


def feature_structs(request: type, features: Iterable[BrokerFeature]) -> tuple[Any, ...]:
    """Build the features of a node, as the registration of a broker or controller tells them."""
    return tuple(
        build(
            request,
            "Feature",
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in features
    )


def registration_entity(schema: ApiSchema, request: BrokerRegistrationRequest) -> RequestPayload:
    """A BrokerRegistration request of that version."""
    cls = schema.request
    entity: RequestPayload = build(
        cls,
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        listeners=listener_structs(cls, request.listeners),
        features=feature_structs(
            cls,
            [
                each
                for each in request.features
                if schema.version >= _FIRST_WITH_OPTIONAL_FEATURES or each.min_supported_version
            ],
        ),
        rack=request.rack,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        log_dirs=request.log_dirs,
        previous_broker_epoch=request.previous_broker_epoch,
    )
    return entity


def heartbeat_entity(schema: ApiSchema, request: BrokerHeartbeatRequest) -> RequestPayload:
    """A BrokerHeartbeat request of that version."""
    entity: RequestPayload = build(
        schema.request,
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        current_metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline_log_dirs=request.offline_log_dirs,
    )
    return entity
