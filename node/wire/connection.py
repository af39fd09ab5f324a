"""The calling side: one connection to one peer, one request in flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, Self, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from node.core.types import Endpoint
from node.wire.api import ApiKey, ApiRange
from node.wire.api_versions import Negotiated
from node.wire.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    WireError,
)
from node.wire.frames import FRAME_BYTES_MAX, Framer
from node.wire.payloads import (
    ApiSchema,
    EncodedRequest,
    api_schema,
    decode,
    encode,
    read_response_head,
    request_frame,
)
from node.wire.quorum.probe import CLIENT_NAME, CLIENT_VERSION
from node.wire.structs import build
from node.wire.tls import explain

CLIENT_ID: Final = CLIENT_NAME
SOFTWARE_VERSION: Final = CLIENT_VERSION
CONNECT_TIMEOUT_S: Final = 5.0
_READ_BYTES: Final = 64 * 1024
_CORRELATION_MAX: Final = 2**31 - 1
_API_VERSIONS_ASKED: Final = 3  # the last that every Kafka since 2.4 answers in full

Done = Callable[[ResponsePayload | WireError], None]


class Connection(asyncio.BufferedProtocol):
    """An open connection; make it with ``open``.

    After any failure of a request but LocalProtocolError and UnsupportedVersionError it is
    closed: an answer that comes late must not be taken for the answer to something else.
    """

    def __init__(self, endpoint: Endpoint, client_id: str = CLIENT_ID) -> None:
        self.endpoint = endpoint
        self.negotiated: Negotiated | None = None
        self._client_id = client_id.encode()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._framer = Framer(FRAME_BYTES_MAX)
        self._read_buffer = memoryview(bytearray(_READ_BYTES))
        self._correlation = 0
        self._schema: ApiSchema | None = None  # of the request in flight
        self._done: Done | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        source_host: str | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        client_id: str = CLIENT_ID,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect, from the local address ``source_host`` when one is given.

        With an ``ssl_context`` (``TlsConfig.client_context``) in TLS, all within the same time.

        Raises:
            ConnectFailed: Refused, unreachable, no such host, not our local address, or too slow;
                or one side refuses the other in TLS.
        """
        loop = asyncio.get_running_loop()
        local = None if source_host is None else (source_host, 0)
        try:
            async with asyncio.timeout(connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(endpoint, client_id),
                    endpoint.host,
                    endpoint.port,
                    local_addr=local,
                    ssl=ssl_context,
                )
        except TimeoutError:
            raise ConnectFailed(f"{endpoint}: no answer in {connect_timeout_s} s") from None
        except ssl.SSLError as error:
            raise ConnectFailed(f"{endpoint}: in the TLS handshake: {explain(error)}") from error
        except (OSError, ValueError, OverflowError) as error:
            # ValueError: a host that is no name, OverflowError: a port that is none; peers may
            # have told us so.
            raise ConnectFailed(f"{endpoint}: {error}") from error
        return connection

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        return self._transport is not None

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is in flight."""
        return self._done is not None

    async def request(
        self, request: RequestPayload | EncodedRequest, timeout_s: float
    ) -> ResponsePayload:
        """Send a request and wait for its answer.

        Cancelling closes the connection.

        Raises:
            RequestTimedOut: No answer within ``timeout_s`` seconds.
            Disconnected: The connection ended first, or was closed before.
            RemoteProtocolError: The answer is malformed or not one to this request.
            LocalProtocolError: A request is in flight already, or this one cannot be encoded.
        """
        if not isinstance(request, EncodedRequest):
            schema = api_schema(request.__api_key__, request.__version__)
            request = EncodedRequest(schema, encode(request))
        answer: asyncio.Future[ResponsePayload] = self._loop.create_future()

        def done(result: ResponsePayload | WireError) -> None:
            if answer.done():
                return
            if isinstance(result, WireError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        self.send(request, timeout_s, done)
        try:
            return await answer
        except asyncio.CancelledError:
            self.close()
            raise

    def send(self, request: EncodedRequest, timeout_s: float, done: Done) -> None:
        """Send an encoded request; ``done`` gets the answer or the error, exactly once.

        ``done`` is called from the event loop, never from within this call.

        Raises:
            Disconnected: The connection is closed.
            LocalProtocolError: A request is in flight already.
        """
        if self._transport is None:
            raise Disconnected(f"{self.endpoint}: the connection is closed")
        if self._done is not None:
            raise LocalProtocolError(f"{self.endpoint}: {self._schema} is still in flight")
        self._correlation = self._correlation + 1 if self._correlation < _CORRELATION_MAX else 0
        schema = self._schema = request.schema
        self._done = done
        self._timer = self._loop.call_later(timeout_s, self._on_timeout, timeout_s)
        self._transport.write(
            request_frame(schema, self._correlation, self._client_id, request.body)
        )

    async def negotiate(self, timeout_s: float) -> Negotiated:
        """Ask which versions the peer serves; the answer is kept in ``negotiated``.

        Raises:
            UnsupportedVersionError: The peer refuses to say.
            WireError: As ``request``.
        """
        answer = await self._ask_api_versions(_API_VERSIONS_ASKED, timeout_s)
        if answer.error_code is ErrorCode.unsupported_version:
            answer = await self._ask_api_versions(0, timeout_s)
        if answer.error_code is not ErrorCode.none:
            raise UnsupportedVersionError(f"{self.endpoint}: ApiVersions: {answer.error_code.name}")
        self.negotiated = Negotiated(
            ApiRange(api.api_key, api.min_version, api.max_version) for api in answer.api_keys
        )
        return self.negotiated

    def close(self) -> None:
        """Close now; a request in flight ends as Disconnected. Idempotent."""
        self._fail(Disconnected(f"{self.endpoint}: closed by us"))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await self._lost.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    async def _ask_api_versions(self, version: int, timeout_s: float) -> Any:
        schema = api_schema(ApiKey.API_VERSIONS, version)
        request = build(
            schema.request,
            client_software_name=CLIENT_ID,
            client_software_version=SOFTWARE_VERSION,
        )
        return await self.request(request, timeout_s)

    # ------------------------------------------------------------------ from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Give the buffer to read into."""
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: at most one answer can be whole, for only one was asked for."""
        if self._transport is None:
            return
        self._framer.feed(self._read_buffer[:nbytes])
        try:
            frame = self._framer.next_frame()
            if frame is not None:
                self._answer(frame)
        except RemoteProtocolError as error:
            self._fail(RemoteProtocolError(f"{self.endpoint}: {error}"))

    def eof_received(self) -> None:
        """The peer closed; asyncio closes our side."""
        self._fail(Disconnected(f"{self.endpoint}: closed by the peer"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        reason = "closed" if exc is None else explain(exc)
        self._fail(Disconnected(f"{self.endpoint}: {reason}"))
        self._lost.set()

    # ------------------------------------------------------------------ helpers

    def _answer(self, frame: bytes) -> None:
        schema = self._schema
        if schema is None:
            raise RemoteProtocolError("an answer came to no request")
        correlation, offset = read_response_head(frame, flexible=schema.flexible_response_header)
        if correlation != self._correlation:
            raise RemoteProtocolError(
                f"an answer to request {correlation} came, {self._correlation} is in flight"
            )
        if self._framer.buffered:
            raise RemoteProtocolError("more bytes than one answer came")
        self._settle(decode(_answered_with(schema, frame, offset), frame, offset))

    def _on_timeout(self, timeout_s: float) -> None:
        self._fail(
            RequestTimedOut(f"{self.endpoint}: no answer to {self._schema} in {timeout_s} s")
        )

    def _fail(self, error: WireError) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._settle(error)

    def _settle(self, result: ResponsePayload | WireError) -> None:
        done, self._done = self._done, None
        self._schema = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if done is not None:
            done(result)


def _answered_with(schema: ApiSchema, frame: bytes, offset: int) -> type[ResponsePayload]:
    """A server that does not know our version of ApiVersions answers in version 0 (KIP-511)."""
    if schema.key == ApiKey.API_VERSIONS:
        error = frame[offset : offset + 2]
        if error == ErrorCode.unsupported_version.value.to_bytes(2, "big"):
            return api_schema(schema.key, 0).response
    return schema.response
