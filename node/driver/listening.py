"""The listeners of a node: one server for each, with the APIs of its role, in plaintext or TLS."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import replace

from node.broker.controller_channel import ControllerChannel
from node.config import ListenerConfig, NodeConfig
from node.core import inputs
from node.core.messages import DescribeQuorumResponse, ReplicaStatus, Request, Response
from node.core.types import Endpoint
from node.driver.apis.call import Inbound
from node.driver.apis.dispatch import Apis
from node.driver.apis.forwarding import EnvelopeForwarder
from node.driver.node import Node
from node.metadata.features import FEATURES, KRAFT_VERSION
from node.wire import codec
from node.wire.api_versions import Features
from node.wire.errors import LocalProtocolError, ValidationFailure
from node.wire.network import Answer, Caller, Listening
from node.wire.tls import TlsConfig

log = logging.getLogger("krucible.node")

SUPPORTED = {feature.name: (feature.lowest, feature.highest) for feature in FEATURES.values()}


def client_tls(config: NodeConfig, listener_name: str, *, tls: bool) -> ssl.SSLContext | None:
    """Make the TLS context for calls to a listener; None: plaintext. Raises TlsConfigError."""
    if not tls:
        return None
    where = f"the ssl settings of listener {listener_name}"
    return TlsConfig.of(config.ssl_of(listener_name), where).client_context()


class Listeners:
    """All servers of a node. ``start`` binds them, ``close`` ends them."""

    def __init__(self, config: NodeConfig, node: Node) -> None:
        """Raises TlsConfigError."""
        self._config = config
        self.rejected_connections = 0  # closed because of the peer
        self._node = node
        name = config.controller_listener_names[0]
        self._controller_tls = client_tls(config, name, tls=config.controller_tls)
        self._apis: list[Apis] = []
        self.servers: dict[str, Listening] = {}
        for listener in config.controller_listeners:
            self._add(listener, "controller")
        for listener in config.broker_listeners:
            self._add(listener, "broker")

    async def start(self) -> None:
        """Bind and serve; raises OSError, ValueError, OverflowError."""
        for server in self.servers.values():
            await server.start()

    async def close(self) -> None:
        """Serve nobody any more."""
        for apis in self._apis:
            apis.close()
        for server in self.servers.values():
            await server.close()

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return next(iter(self.servers.values())).port

    # ------------------------------------------------------------------ one listener

    def _add(self, listener: ListenerConfig, role: str) -> None:
        node = self._node
        quorum = self._quorum()
        apis = Apis(
            node,
            roles={role},
            listener_name=listener.name,
            forwarder=self._channel() if role == "broker" else None,
            quorum=quorum,
            now_ms=node.clock.now_ms,
        )
        self._apis.append(apis)

        def handle(request: Inbound) -> None:
            if apis.handles(request.api_key):
                apis.handle(request)
            else:
                quorum(request)

        self.servers[listener.name] = node.network.listen(
            listener.bind,
            handle,
            ask=self._ask,
            apis=apis.table,
            on_reject=self._rejected,
            tls=self._server_tls(listener),
            features=self._features,
        )

    def _server_tls(self, listener: ListenerConfig) -> ssl.SSLContext | None:
        if not listener.tls:
            return None
        where = f"the ssl settings of listener {listener.name}"
        return TlsConfig.of(self._config.ssl_of(listener.name), where).server_context()

    def _channel(self) -> EnvelopeForwarder:
        node, tls = self._node, self._controller_tls

        async def connect(endpoint: Endpoint) -> Caller:
            return await node.network.connect(endpoint, tls=tls)

        return EnvelopeForwarder(
            lambda: ControllerChannel(lambda: node.replica.leader_endpoint, connect)
        )

    def _rejected(self, peer: tuple[str, int], reason: str) -> None:
        self.rejected_connections += 1
        log.warning("closed the connection of %s:%s: %s", *peer[:2], reason)

    def _features(self) -> Features:
        image, replica = self._node.machine.image, self._node.replica
        finalized = dict(image.features)
        if replica.kraft_version:
            finalized[KRAFT_VERSION] = replica.kraft_version
        return Features(SUPPORTED, finalized, image.end_offset - 1 if finalized else -1)

    def _quorum(self) -> Callable[[Inbound], None]:
        """Hands requests of the quorum to the core; what is about another partition is refused."""
        node = self._node
        listener_name = self._config.controller_listener_names[0]

        def take(request: Inbound) -> None:
            try:
                message = codec.request_from_wire(
                    request.api_key,
                    request.version,
                    request.body,
                    endpoint_of=node.voters.endpoint,
                    listener_name=listener_name,
                )
            except ValidationFailure as refusal:
                request.reply(
                    codec.error_to_wire(
                        request.api_key, request.version, refusal.error_code, str(refusal)
                    )
                )
                return

            def reply(response: Response, records: bytes) -> None:
                try:
                    request.reply(
                        codec.answer(
                            response,
                            request.version,
                            records,
                            message,
                            voters=node.voters,
                            listener_name=listener_name,
                        )
                    )
                except LocalProtocolError as error:
                    request.reject(f"its answer cannot be encoded: {error}")

            self._ask(request.connection, message, reply)

        return take

    def _ask(self, connection: int, message: Request, answer: Answer) -> None:
        """Hand a request of the quorum to the core."""
        node = self._node

        def reply(response: Response, records: bytes) -> None:
            if isinstance(response, DescribeQuorumResponse):
                response = _since_1970(response, node.clock.wall_ms() - node.clock.now_ms())
            answer(response, records)

        node.request(lambda token: inputs.RequestReceived(token, connection, message), reply)


def _since_1970(response: DescribeQuorumResponse, shift_ms: int) -> DescribeQuorumResponse:
    """The core's times are of a clock that is never set; Kafka's tools want the wall's."""

    def shifted(status: ReplicaStatus) -> ReplicaStatus:
        fetch_ms, caught_up_ms = status.last_fetch_ms, status.last_caught_up_ms
        return replace(
            status,
            last_fetch_ms=None if fetch_ms is None else fetch_ms + shift_ms,
            last_caught_up_ms=None if caught_up_ms is None else caught_up_ms + shift_ms,
        )

    return replace(
        response,
        voters=tuple(map(shifted, response.voters)),
        observers=tuple(map(shifted, response.observers)),
    )
