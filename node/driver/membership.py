"""A node's place in its cluster: the broker's life, and the controller's registration.

Both speak to the active controller over sockets of their own, and hear from the state machine how
far the image has come. Source: Kafka's BrokerServer, ControllerRegistrationManager; KIP-631,
KIP-919.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

from node.broker.clean_shutdown import take_previous_epoch, write_clean_shutdown
from node.broker.controller_channel import ControllerChannel
from node.broker.exchange import feature_structs, listener_structs
from node.broker.isr_trace import IsrTrace
from node.broker.lifecycle import BrokerLifecycle, LifecycleConfig
from node.broker.producer_ids import ProducerIds
from node.broker.runner import BrokerRunner
from node.config import ListenerConfig, NodeConfig
from node.driver.node import Node
from node.log.disk import Disk
from node.log.meta_properties import random_id
from node.metadata.features import FEATURES, IBP_3_7_IV0
from node.metadata.schemas import BrokerEndpoint, BrokerFeature
from node.trace import Tracer
from node.wire.api import ApiKey
from node.wire.errors import WireError
from node.wire.payloads import ApiSchema
from node.wire.structs import build

log = logging.getLogger("krucible.node")

_PLAINTEXT, _SSL = 0, 1  # Kafka's SecurityProtocol
_FIRST_RETRY_S: Final = 0.1
_RETRY_MAX_S: Final = 60.0
_REQUEST_TIMEOUT_S: Final = 5.0
_CATCH_UP_S: Final = 5.0

MakeChannel = Callable[[], ControllerChannel]


def endpoints_of(listeners: tuple[ListenerConfig, ...]) -> tuple[BrokerEndpoint, ...]:
    """Listeners as a registration tells them."""
    return tuple(
        BrokerEndpoint(
            name=listener.name,
            host=listener.advertised.host,
            port=listener.advertised.port,
            security_protocol=_SSL if listener.tls else _PLAINTEXT,
        )
        for listener in listeners
    )


def supported_features() -> tuple[BrokerFeature, ...]:
    """List the features that this node supports, as a registration tells them."""
    return tuple(
        BrokerFeature(
            name=feature.name,
            min_supported_version=feature.lowest,
            max_supported_version=feature.highest,
        )
        for feature in FEATURES.values()
    )


class Broker:
    """The broker role of a node."""

    def __init__(  # noqa: PLR0913 - its seams
        self,
        config: NodeConfig,
        node: Node,
        *,
        disk: Disk,
        channel: MakeChannel,
        trace: Tracer,
        rng: Random,
        on_fatal: Callable[[BaseException], None],
        lifecycle: type[BrokerLifecycle] = BrokerLifecycle,
    ) -> None:
        self._disk = disk
        self._log_dir = config.log_dir
        directory_id = node.storage.key.directory_id
        own = lifecycle(
            LifecycleConfig(
                broker_id=config.node_id,
                cluster_id=node.storage.cluster_id,
                incarnation_id=random_id(rng),
                listeners=endpoints_of(config.broker_listeners),
                features=supported_features(),
                rack=config.rack,
                log_dirs=() if directory_id is None else (directory_id,),
                previous_broker_epoch=take_previous_epoch(disk, config.log_dir),
                heartbeat_interval_ms=config.timers.broker_heartbeat_interval_ms,
                session_timeout_ms=config.timers.broker_session_timeout_ms,
                registration_timeout_ms=config.timers.broker_registration_timeout_ms,
            ),
            rng,
        )
        self.runner = BrokerRunner(
            own,
            channel(),
            clock=node.clock,
            trace=trace,
            epoch=lambda: node.replica.epoch,
            on_fatal=on_fatal,
        )
        # ids have a way of their own: a heartbeat must not wait for a block
        self._producer_ids = node.producer_ids = ProducerIds(
            config.node_id,
            lambda: self.runner.broker_epoch,
            channel(),
            now_ms=node.clock.now_ms,
            on_fatal=on_fatal,
        )
        self._node = node

    def start(self) -> None:
        """Register, and tell the controller from now on how far the metadata has come."""
        node = self._node
        node.work.on_applied.append(self._applied)
        node.machine.loader.add_publisher(IsrTrace(node.pump.trace_fields))
        self.runner.start()

    async def stop(self, timeout_s: float) -> None:
        """Hand over what the broker leads, if the controller agrees in time."""
        if await self.runner.stop(timeout_s):
            write_clean_shutdown(self._disk, self._log_dir, self.runner.broker_epoch)

    def halt(self) -> None:
        """Send nothing more. Idempotent."""
        self._producer_ids.close()
        self.runner.halt()

    def _applied(self) -> None:
        if self._node.machine.published is not None:
            self.runner.on_published(self._node.machine.published - 1)


class ControllerRegistration:
    """Registers a controller process, as often as the cluster does not know it yet.

    Which is after a start, when somebody else has registered under its id, and when the
    metadata.version has come to know registrations.
    """

    def __init__(
        self, config: NodeConfig, node: Node, *, channel: ControllerChannel, rng: Random
    ) -> None:
        self._node = node
        self._id = config.node_id
        self._incarnation: UUID = random_id(rng)
        self._endpoints = endpoints_of(config.controller_listeners)
        self._channel = channel
        self._task: asyncio.Task[bool] | None = None
        self._retry_s = _FIRST_RETRY_S
        self._asked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Look after each change of the image whether there is something to tell."""
        self._node.work.on_applied.append(self._look)

    def close(self) -> None:
        """Tell nothing any more. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._channel.close()

    @property
    def _known(self) -> bool:
        image = self._node.machine.image
        known = image.controllers.get(self._id)
        return known is not None and known.incarnation == self._incarnation

    def _look(self) -> None:
        wanted = self._node.machine.image.metadata_version >= IBP_3_7_IV0 and not self._known
        if wanted and self._task is None and self._timer is None and not self._closed:
            self._task = asyncio.create_task(self._register())
            self._task.add_done_callback(self._told)

    def _told(self, task: asyncio.Task[bool]) -> None:
        self._task = None
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if error is not None:
            self._node.pump.fail(error)
            return
        loop = asyncio.get_running_loop()
        if task.result():  # the image will have it when it has caught up
            self._timer = loop.call_later(_CATCH_UP_S, self._again)
            return
        self._timer = loop.call_later(self._retry_s, self._again)
        self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)

    def _again(self) -> None:
        self._timer = None
        self._look()

    async def _register(self) -> bool:
        """Send the registration, and tell whether it is known to be committed."""
        self._asked_s = asyncio.get_running_loop().time()
        try:
            answer = await self._channel.request(
                ApiKey.CONTROLLER_REGISTRATION, self._entity, _REQUEST_TIMEOUT_S
            )
        except WireError as error:
            log.info("controller %d is not registered yet: %s", self._id, error)
            self._tell(None, str(error))
            return False
        self._tell(int(answer.error_code))
        if answer.error_code:
            log.warning(
                "the registration of controller %d was refused: %s %s",
                self._id,
                answer.error_code,
                answer.error_message,
            )
        return not answer.error_code

    def _tell(self, error: int | None, why: str | None = None) -> None:
        """Trace how the registration was answered; None: it was not."""
        waited_s = asyncio.get_running_loop().time() - self._asked_s
        fields = {"inc_id": self._incarnation.hex, "err": error, "ms": round(waited_s * 1e3)}
        self._node.pump.trace_fields("creg", fields if why is None else {**fields, "why": why})

    def _entity(self, schema: ApiSchema) -> Any:
        request = schema.request
        return build(
            request,
            controller_id=self._id,
            incarnation_id=self._incarnation,
            zk_migration_ready=False,
            listeners=listener_structs(request, self._endpoints),
            features=feature_structs(request, supported_features()),
        )
