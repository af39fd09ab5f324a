"""One accepted connection: frames and TLS in, one request at a time, replies out, all bounded."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from kio.static.protocol import ResponsePayload

from node.wire.api import ApiKey, ApiTable
from node.wire.api_versions import Features, answer_api_versions, is_api_versions
from node.wire.errors import RemoteProtocolError
from node.wire.frames import Framer
from node.wire.limits import Limits
from node.wire.payloads import (
    ApiSchema,
    api_schema,
    decode,
    encode,
    peek_api,
    read_request_head,
    response_frame,
)
from node.wire.tls_session import TlsSession

Peer = tuple[str, int]

LARGE_BYTES: Final = 256 * 1024  # a request that is decoded beside other turns: 10 ms and more
_READ_BYTES: Final = 64 * 1024
_INSIDE_A_FRAME: Final = "inside a frame"
_OF_BROKERS: Final = frozenset(
    {
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
    }
)


class InboundRequest:
    """One decoded request; ``reply`` answers it, once, from the event loop's thread."""

    __slots__ = (
        "_link",
        "_schema",
        "api_key",
        "body",
        "client_id",
        "connection",
        "correlation",
        "peer",
        "version",
    )

    def __init__(
        self, link: Link, schema: ApiSchema, correlation: int, client_id: str | None, body: Any
    ) -> None:
        self.connection = link.id
        self.peer = link.peer
        self.api_key = schema.key
        self.version = schema.version
        self.client_id = client_id
        self.correlation = correlation
        self.body = body
        self._schema = schema
        self._link: Link | None = link

    def reply(self, answer: ResponsePayload | bytes, *, then_close: str | None = None) -> None:
        """Write the response (an entity, or its encoded body) and let the next request in.

        Does nothing when the peer is gone or the request was answered before. With a reason in
        ``then_close`` the connection ends when the response is written.

        Raises:
            LocalProtocolError: The entity cannot be encoded; the request is still unanswered.
        """
        if self._link is None:
            return
        body = answer if isinstance(answer, bytes) else encode(answer)
        link, self._link = self._link, None
        flexible = self._schema.flexible_response_header
        frame = response_frame(self.correlation, body, flexible=flexible)
        if then_close is None:
            link.answer(frame)
        else:
            link.answer_and_close(frame, then_close)

    def reject(self, reason: str) -> None:
        """Close the connection instead of answering: the request was hostile or nonsense."""
        link, self._link = self._link, None
        if link is not None:
            link.reject(reason)

    def __repr__(self) -> str:
        return f"<{self._schema} #{self.correlation} from {self.peer} by {self.connection}>"


@dataclass(slots=True, kw_only=True, eq=False)
class Shared:
    """All connections of one server share this: what is served, their limits, their counts.

    ``opened`` counts a new link and gives its id, None when there are too many; ``closed`` is told
    of each that is gone, whether it was counted or not.
    """

    apis: ApiTable
    limits: Limits
    features: Callable[[], Features]
    handler: Callable[[InboundRequest], None]
    on_reject: Callable[[Peer, str], None]
    ssl_context: ssl.SSLContext | None
    opened: Callable[[Link], int | None]
    closed: Callable[[Link], None]
    listens: bool = False  # new connections are welcome
    buffered_bytes: int = 0
    handshakes: int = 0  # under way
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(_READ_BYTES)))


class Link(asyncio.BufferedProtocol):
    """One accepted connection."""

    def __init__(self, shared: Shared, loop: asyncio.AbstractEventLoop) -> None:
        self.id = 0
        self.peer: Peer = ("?", 0)
        self._shared = shared
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None  # while last bytes are written
        self._tls = None if shared.ssl_context is None else TlsSession(shared.ssl_context)
        self._shaking = False  # counted in shared.handshakes
        self._framer = Framer(shared.limits.first_frame_bytes_max)
        self._told = False  # why it was closed
        self._proven = False  # a valid request has come
        self._in_flight = False
        self._pumping = False
        self._reading = True
        self._writable = True
        self._buffered = 0  # our part of shared.buffered_bytes
        self._deadline = math.inf
        self._waits_for = ""

    # ------------------------------------------------------------------ from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register, or turn away when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if name:
            self.peer = (name[0], name[1])
        if not self._shared.listens:  # it came just before the end
            self._transport.abort()
            return
        id_ = self._shared.opened(self)
        if id_ is None:
            self.reject(f"more than {self._shared.limits.connections_max} connections")
            return
        self.id = id_
        if self._tls is None:
            self._await_input()
            return
        self._shared.handshakes += 1
        self._shaking = True
        if self._shared.handshakes > self._shared.limits.handshakes_max:
            self.reject(f"more than {self._shared.limits.handshakes_max} TLS handshakes at a time")
            return
        self._wait("in the TLS handshake", self._shared.limits.handshake_timeout_s)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """All connections read into one buffer: it is emptied before anything else is read."""
        return self._shared.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._transport is None:
            return
        data = self._shared.read_buffer[:nbytes]
        if self._tls is None:
            self._framer.feed(data)
            self._pump()
        else:
            self._receive(self._tls, data)

    def eof_received(self) -> None:
        """The peer will send no more; the transport closes itself."""
        self._check_cut()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The connection is gone, whoever ended it."""
        self._check_cut()
        self._transport = self._closing = None
        self._account(0)
        self._end_handshake()
        self._shared.closed(self)

    def pause_writing(self) -> None:
        """The peer does not read its replies; take no more requests from it until it does."""
        self._writable = False
        self._wait("reading its replies", self._shared.limits.frame_timeout_s)

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._writable = True
        if self._tls is None or self._tls.established:
            self._pump()

    # ------------------------------------------------------------------ from the server

    def answer(self, frame: bytes) -> None:
        """Write a reply and go on with what the peer sent meanwhile."""
        if self._transport is None:
            return
        self._in_flight = False
        self._transport.write(frame if self._tls is None else self._tls.encrypt(frame))
        self._pump()

    def answer_and_close(self, frame: bytes, reason: str) -> None:
        """Write the last reply; the connection ends when the peer has it, or is too slow."""
        self._finish(frame if self._tls is None else self._tls.encrypt(frame), reason)

    def reject(self, reason: str) -> None:
        """Close because of the peer; told once."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        transport.abort()
        self._account(0)
        self._told = True
        self._shared.on_reject(self.peer, reason)

    def abort(self) -> None:
        """Close because we stop."""
        transport, self._transport = self._transport or self._closing, None
        if transport is not None:
            transport.abort()

    def check_deadline(self, now: float) -> None:
        """Reject a peer that kept us waiting for too long."""
        if now < self._deadline:
            return
        if self._closing is not None:
            self._closing.abort()
        self.reject(f"timed out {self._waits_for}")

    # ------------------------------------------------------------------ TLS

    def _receive(self, tls: TlsSession, data: memoryview) -> None:
        """Take ciphertext; what TLS itself has to say goes out first."""
        try:
            plaintext = tls.receive(data)
        except RemoteProtocolError as error:
            self._finish(tls.outgoing(), str(error))
            return
        outgoing = tls.outgoing()
        if outgoing and self._transport is not None:
            self._transport.write(outgoing)
        if not tls.established:
            return
        if self._shaking:
            self._end_handshake()
            self._await_input()
        if plaintext:
            self._framer.feed(plaintext)
            self._pump()
        if tls.closed and self._transport is not None:
            self._check_cut()
            self.abort()

    def _end_handshake(self) -> None:
        if self._shaking:
            self._shaking = False
            self._shared.handshakes -= 1

    def _finish(self, last: bytes, reason: str) -> None:
        """Close because of the peer when the last bytes are written; told once."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._closing = transport
        self._wait("", self._shared.limits.frame_timeout_s)
        transport.write(last)
        transport.close()
        self._account(0)
        self._told = True
        self._shared.on_reject(self.peer, reason)

    # ------------------------------------------------------------------ frames

    def _pump(self) -> None:
        """Take frames until one is in flight or none is whole; replies in between loop here."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self._in_flight and self._writable and self._transport is not None:
                frame = self._framer.next_frame()
                if frame is None:
                    break
                self._take(frame)
        except RemoteProtocolError as error:
            self.reject(str(error))
        finally:
            self._pumping = False
        if self._transport is not None:
            self._await_input()

    def _take(self, frame: bytes) -> None:
        """Decode one request and hand it over."""
        self._waits_for = ""
        api_key, version, correlation = peek_api(frame)
        if is_api_versions(api_key):
            reply = answer_api_versions(
                self._shared.apis, frame, version, correlation, self._shared.features()
            )
            self._prove()
            self._in_flight = True
            self.answer(reply)
            return
        served = self._shared.apis.get(api_key)
        if served is None:
            raise RemoteProtocolError(f"API {api_key} is not served here")
        if version not in served:
            raise RemoteProtocolError(
                f"version {version} of API {api_key} is not served, "
                f"only {served.min_version} to {served.max_version}"
            )
        schema = api_schema(api_key, version)
        head = read_request_head(frame, flexible=schema.flexible_request_header)
        limits = self._shared.limits
        elements_max = limits.broker_elements_max if api_key in _OF_BROKERS else limits.elements_max

        def read() -> Any:
            # surplus: librdkafka's Metadata request for all topics has three bytes too many
            return decode(
                schema.request, frame, head.body_offset, elements_max=elements_max, surplus=True
            )

        def hand_over(body: Any) -> None:
            self._prove()
            self._in_flight = True
            request = InboundRequest(self, schema, correlation, head.client_id, body)
            self._shared.handler(request)

        if len(frame) < LARGE_BYTES:
            hand_over(read())
            return
        self._in_flight = True
        self._loop.run_in_executor(None, read).add_done_callback(
            lambda done: self._was_read(done, hand_over)
        )

    def _was_read(self, done: asyncio.Future[Any], hand_over: Callable[[Any], None]) -> None:
        """Go on with a large request; its connection may be gone by now."""
        error = done.exception()
        if self._transport is None:
            if isinstance(error, RemoteProtocolError) and not self._told:
                self._told = True
                self._shared.on_reject(self.peer, str(error))
            return
        if isinstance(error, RemoteProtocolError):
            self.reject(str(error))
            return
        try:
            hand_over(done.result())
        except BaseException:  # as the transport does with what fails while it reads
            self.abort()
            raise

    def _prove(self) -> None:
        if not self._proven:
            self._proven = True
            self._framer.limit_bytes = self._shared.limits.frame_bytes_max

    # ------------------------------------------------------------------ bounds

    def _await_input(self) -> None:
        """Bound what is buffered and for how long we wait."""
        limits = self._shared.limits
        buffered = self._framer.buffered
        if buffered or self._buffered:
            self._account(buffered)
            if self._shared.buffered_bytes > limits.buffered_bytes_max:
                self.reject(f"more than {limits.buffered_bytes_max} bytes wait in all connections")
                return
        stuck = self._in_flight or not self._writable
        self._read_while(not stuck or buffered < limits.pipelined_bytes_max)
        if not self._writable:
            return
        if self._in_flight:
            self._deadline = math.inf
        elif not buffered:
            self._wait("idle", limits.idle_timeout_s)
        elif self._waits_for != _INSIDE_A_FRAME:  # counts from the frame's first byte
            self._wait(_INSIDE_A_FRAME, limits.frame_timeout_s)

    def _read_while(self, wanted: bool) -> None:
        if wanted == self._reading or self._transport is None:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _wait(self, what: str, seconds: float) -> None:
        self._waits_for = what
        self._deadline = self._loop.time() + seconds

    def _account(self, buffered: int) -> None:
        self._shared.buffered_bytes += buffered - self._buffered
        self._buffered = buffered

    def _check_cut(self) -> None:
        if self._transport is None:
            return
        if self._tls is not None and self._tls.started and not self._tls.established:
            self.reject(
                "closed by the peer in the TLS handshake: it may not trust this certificate"
            )
        elif self._framer.buffered:
            self.reject(f"closed by the peer after {self._framer.describe_partial()}")
