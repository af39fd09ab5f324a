"""The network seam of a node: listening and calling; sockets here, virtual links in simulations."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from kio.static.protocol import RequestPayload, ResponsePayload

from node.core.messages import Batch, Request, Response
from node.core.types import Endpoint
from node.wire import codec
from node.wire.api import ApiTable
from node.wire.api_versions import Features, Negotiated
from node.wire.connection import CONNECT_TIMEOUT_S, Connection
from node.wire.errors import WireError
from node.wire.link import InboundRequest
from node.wire.payloads import EncodedRequest
from node.wire.server import Server

ParseRecords = Callable[[bytes], tuple[Batch, ...]]
Done = Callable[[Response | Exception], None]  # WireError, or what parsing records raises
Answer = Callable[[Response, bytes], None]
Ask = Callable[[int, Request, Answer], None]  # (connection, request, answer with its records)


class Caller(Protocol):
    """An open connection to a node, as ``Connection`` is one; errors as there."""

    @property
    def endpoint(self) -> Endpoint:
        """The address of the peer."""
        ...

    @property
    def negotiated(self) -> Negotiated | None:
        """The versions that both sides speak, once asked for."""
        ...

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        ...

    async def request(self, request: RequestPayload, timeout_s: float) -> ResponsePayload:
        """Send a request and wait for its answer."""
        ...

    async def negotiate(self, timeout_s: float) -> Negotiated:
        """Ask which versions the peer serves."""
        ...

    def close(self) -> None:
        """Close now. Idempotent."""
        ...


class QuorumCaller(Protocol):
    """An open connection to a replica, in the core's own terms."""

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        ...

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        """Send one request; ``done`` gets its answer or the error, once, and not within this call.

        Raises:
            WireError: It cannot be sent; ``done`` will not be called.
        """
        ...

    def close(self) -> None:
        """Close now. Idempotent."""
        ...


class Listening(Protocol):
    """A listener, as ``Server`` is one."""

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        ...

    async def start(self) -> None:
        """Listen; raises OSError."""
        ...

    async def close(self) -> None:
        """Stop listening and close every connection. Idempotent."""
        ...


class Network(Protocol):
    """The ways in which a node reaches others and is reached."""

    async def connect(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> Caller:
        """Connect, in TLS when told so; raises ConnectFailed."""
        ...

    async def connect_to_replica(
        self,
        endpoint: Endpoint,
        parse_records: ParseRecords,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        listener_name: str,
    ) -> QuorumCaller:
        """Connect to a replica; what it sends in a fetch goes through ``parse_records``.

        To connect takes at most ``timeout_s``, and so does asking what it serves. Raises WireError.
        """
        ...

    def listen(
        self,
        at: Endpoint,
        handler: Callable[[Any], None],
        *,
        ask: Ask,
        apis: ApiTable,
        on_reject: Callable[[tuple[str, int], str], None],
        tls: ssl.SSLContext | None,
        features: Callable[[], Features],
    ) -> Listening:
        """A listener, to be started, whose requests go to ``handler``.

        Where both sides speak in the core's terms, a replica's requests go to ``ask`` instead.
        """
        ...


class EncodedCaller(Protocol):
    """An open connection that takes encoded requests, as ``Connection`` is one."""

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        ...

    def send(
        self,
        request: EncodedRequest,
        timeout_s: float,
        done: Callable[[ResponsePayload | WireError], None],
    ) -> None:
        """Send one request; ``done`` gets its answer or the error, not within this call.

        Raises:
            WireError: It cannot be sent; ``done`` will not be called.
        """
        ...

    def close(self) -> None:
        """Close now. Idempotent."""
        ...


class WireQuorumCaller:
    """Speaks Kafka's protocol on a connection, in the highest versions that both sides speak."""

    def __init__(
        self,
        connection: EncodedCaller,
        negotiated: Negotiated,
        parse_records: ParseRecords,
        listener_name: str,
    ) -> None:
        self._connection: Final = connection
        self._negotiated = negotiated
        self._parse_records = parse_records
        self._listener_name = listener_name

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        return self._connection.is_open

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        """See ``QuorumCaller``."""
        version = codec.version_for(request, self._negotiated)
        encoded = codec.encode_request(request, version, listener_name=self._listener_name)

        def answered(outcome: ResponsePayload | WireError) -> None:
            if isinstance(outcome, WireError):
                done(outcome)
                return
            try:
                response = codec.response_from_wire(outcome, request, self._parse_records)
            except Exception as error:  # whatever it is, somebody waits for an answer
                done(error)
                return
            done(response)

        self._connection.send(encoded, timeout_s, answered)

    def close(self) -> None:
        """Close now. Idempotent."""
        self._connection.close()


class Sockets:
    """The real network; speaks from the local address ``source_host`` if one is given."""

    def __init__(self, source_host: str | None = None) -> None:
        self._source_host = source_host

    async def connect(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> Connection:
        """See ``Network``."""
        return await Connection.open(
            endpoint,
            source_host=self._source_host,
            connect_timeout_s=timeout_s,
            ssl_context=tls,
        )

    async def connect_to_replica(
        self,
        endpoint: Endpoint,
        parse_records: ParseRecords,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        listener_name: str,
    ) -> WireQuorumCaller:
        """See ``Network``."""
        connection = await self.connect(endpoint, timeout_s=timeout_s, tls=tls)
        try:
            negotiated = await connection.negotiate(timeout_s)
        except BaseException:
            connection.close()
            raise
        return WireQuorumCaller(connection, negotiated, parse_records, listener_name)

    def listen(
        self,
        at: Endpoint,
        handler: Callable[[InboundRequest], None],
        *,
        ask: Ask,  # noqa: ARG002 - everything comes in Kafka's protocol here
        apis: ApiTable,
        on_reject: Callable[[tuple[str, int], str], None],
        tls: ssl.SSLContext | None,
        features: Callable[[], Features],
    ) -> Server:
        """See ``Network``."""
        return Server(
            at.host,
            at.port,
            handler,
            apis=apis,
            on_reject=on_reject,
            ssl_context=tls,
            features=features,
        )
