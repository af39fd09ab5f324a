"""Brokers and controllers that come, live and go: requests 62, 63, 64 and 70.

Source: KIP-631, KIP-919; log directories are KIP-858's, and cordoned ones KIP-1066's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from node.controller.broker_operations import (
    BrokerHeartbeatReply,
    BrokerHeartbeatRequest,
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    Outcome,
)
from node.controller.controller import QuorumController
from node.controller.operations import ControllerResult
from node.driver.apis.call import Call
from node.driver.apis.fields import error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.metadata.schemas import BrokerEndpoint, BrokerFeature
from node.wire.api import ApiKey


@serves(ApiKey.BROKER_REGISTRATION, Listener.CONTROLLER)
def broker_registration(serving: Serving, call: Call) -> None:
    """A broker process has started; it is told its epoch."""
    body = call.body
    request = BrokerRegistrationRequest(
        broker_id=int(body.broker_id),
        cluster_id=body.cluster_id,
        incarnation_id=body.incarnation_id,
        listeners=_listeners(body),
        features=_features(body),
        rack=body.rack,
        is_migrating_zk_broker=getattr(body, "is_migrating_zk_broker", False),
        log_dirs=tuple(getattr(body, "log_dirs", ())),
        previous_broker_epoch=int(getattr(body, "previous_broker_epoch", -1)),
    )

    def encode(reply: BrokerRegistrationReply) -> Any:
        return call.struct(broker_epoch=reply.broker_epoch, **error_fields(reply))

    serving.write(
        call,
        lambda c: c.register_broker(request, serving.now_ms()),
        BrokerRegistrationReply,
        encode,
    )


@serves(ApiKey.BROKER_HEARTBEAT, Listener.CONTROLLER)
def broker_heartbeat(serving: Serving, call: Call) -> None:
    """A broker lives, and is told whether it is fenced and may stop."""
    body = call.body
    cordoned = getattr(body, "cordoned_log_dirs", None)
    request = BrokerHeartbeatRequest(
        broker_id=int(body.broker_id),
        broker_epoch=int(body.broker_epoch),
        current_metadata_offset=int(body.current_metadata_offset),
        want_fence=body.want_fence,
        want_shut_down=body.want_shut_down,
        offline_log_dirs=_named(getattr(body, "offline_log_dirs", ())),
        cordoned_log_dirs=None if cordoned is None else _named(cordoned),
    )

    def operate(controller: QuorumController) -> ControllerResult[BrokerHeartbeatReply]:
        if controller.contact(request.broker_id, request.broker_epoch, serving.now_ms()):
            serving.node.trace("contact", broker=request.broker_id, b_ep=request.broker_epoch)
        return controller.heartbeat(request)

    def encode(reply: BrokerHeartbeatReply) -> Any:
        return call.struct(
            is_caught_up=reply.is_caught_up,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
            **error_fields(reply),
        )

    serving.write(call, operate, BrokerHeartbeatReply, encode)


@serves(ApiKey.UNREGISTER_BROKER, Listener.CONTROLLER, forwarded=True)
def unregister_broker(serving: Serving, call: Call) -> None:
    """Forget a broker that is gone for good."""
    broker_id = int(call.body.broker_id)
    serving.write(
        call,
        lambda c: c.unregister_broker(broker_id),
        Outcome,
        lambda reply: call.struct(**error_fields(reply)),
    )


@serves(ApiKey.CONTROLLER_REGISTRATION, Listener.CONTROLLER)
def controller_registration(serving: Serving, call: Call) -> None:
    """Another controller says where it listens and what it supports."""
    body = call.body
    request = ControllerRegistrationRequest(
        controller_id=int(body.controller_id),
        incarnation_id=body.incarnation_id,
        zk_migration_ready=body.zk_migration_ready,
        listeners=_listeners(body),
        features=_features(body),
    )
    serving.write(
        call,
        lambda c: c.register_controller(request),
        Outcome,
        lambda reply: call.struct(**error_fields(reply)),
    )


def _named(directories: Iterable[UUID | None]) -> tuple[UUID, ...]:
    return tuple([each for each in directories if each is not None])


def _listeners(body: Any) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        [
            BrokerEndpoint(
                name=each.name,
                host=each.host,
                port=int(each.port),
                security_protocol=int(each.security_protocol),
            )
            for each in body.listeners
        ]
    )


def _features(body: Any) -> tuple[BrokerFeature, ...]:
    return tuple(
        [
            BrokerFeature(
                name=each.name,
                min_supported_version=int(each.min_supported_version),
                max_supported_version=int(each.max_supported_version),
            )
            for each in body.features
        ]
    )
