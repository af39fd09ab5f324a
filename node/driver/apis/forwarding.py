"""Forwards requests that only the active controller can do, in envelopes.

As long as the client waits, tries go on that certainly wrote nothing: no controller was known,
none was reached, or the one asked said that it is not the active one. A request whose answer was
lost is not repeated, which is stricter than Kafka: done twice it could collide with itself. It is
answered with REQUEST_TIMED_OUT, which clients take for an unknown outcome.

Source: KIP-590; Kafka's ForwardingManager and DefaultKafkaPrincipalBuilder (the principal: a
version in two bytes, then ``DefaultPrincipalData``).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from node.broker.controller_channel import (
    ControllerChannel,
    ControllerNotFoundError,
    EnvelopeRefusedError,
)
from node.controller.errors import ApiError
from node.driver.apis.call import Call
from node.driver.apis.fields import milliseconds
from node.wire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
    WireError,
)
from node.wire.payloads import api_schema, encode, read_response_head, request_frame

TIMEOUT_MS_MAX: Final = 60_000  # Kafka's limit for a forwarded request
TIMEOUT_MS_MIN: Final = 1_000  # a client that says 0 does not want its request thrown away
FORWARDED_MAX: Final = 4096  # requests that wait for their turn or for their answer
CHANNELS: Final = 4  # requests in flight; each waits for its commit
_LENGTH_BYTES: Final = 4
_CORRELATIONS: Final = 2**31
_PRINCIPAL_VERSION: Final = (0).to_bytes(2, "big")
_LOOPBACK: Final = ipaddress.IPv4Address("127.0.0.1")

Refuse = Callable[[Call, ApiError, str], None]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A client's request on its way: its header and body in bytes, and where it came from."""

    api_key: int
    version: int
    header: bytes
    body: bytes
    client_host: str


class Forwarder(Protocol):
    """The way to the active controller."""

    async def forward(self, request: Forwarded, timeout_s: float) -> bytes:
        """Ask the active controller; returns its response, header and body.

        Raises:
            ControllerNotFoundError: None took it in time: nothing was written.
            EnvelopeRefusedError: It will not take it: nothing was written.
            UnsupportedVersionError: It takes no envelopes: nothing was written.
            WireError: The answer was lost, the outcome is unknown.
        """
        ...

    def close(self) -> None:
        """Drop all connections. Idempotent."""
        ...


class EnvelopeForwarder:
    """Sends envelopes over a few channels, for each has one request in flight.

    Args:
        channel: Makes a channel to the active controller.
    """

    def __init__(self, channel: Callable[[], ControllerChannel]) -> None:
        self._channels = [channel() for _ in range(CHANNELS)]
        self._idle = list(self._channels)
        self._free = asyncio.Semaphore(CHANNELS)
        self._principal = anonymous_principal()

    async def forward(self, request: Forwarded, timeout_s: float) -> bytes:
        """See ``Forwarder``."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._free.acquire()
        except TimeoutError:
            raise ControllerNotFoundError("too many requests are being forwarded") from None
        channel = self._idle.pop()
        try:
            return await channel.send_envelope(
                request.header + request.body,
                self._principal,
                _packed(request.client_host),
                deadline_s - loop.time(),
            )
        finally:
            self._idle.append(channel)
            self._free.release()

    def close(self) -> None:
        """See ``Forwarder``."""
        for channel in self._channels:
            channel.close()


class Forwarding:
    """Forwards calls and answers them, each in a task of its own.

    Args:
        forwarder: The way to the active controller.
        refuse: Answers a call with an error.
    """

    def __init__(self, forwarder: Forwarder, refuse: Refuse) -> None:
        self._forwarder = forwarder
        self._refuse = refuse
        self._tasks: set[asyncio.Task[None]] = set()
        self._correlation = 0

    def forward(self, call: Call) -> None:
        """Forward a request, and answer it when it was answered or when it is too late."""
        if len(self._tasks) >= FORWARDED_MAX:  # clients that gave up are among them
            why = f"{FORWARDED_MAX} requests are being forwarded, nothing was written"
            self._refuse(call, ApiError.REQUEST_TIMED_OUT, why)
            return
        self._correlation = (self._correlation + 1) % _CORRELATIONS
        try:
            request = _request(call, self._correlation)
        except LocalProtocolError as error:
            call.reject(f"it cannot be forwarded: {error}")
            return
        task = asyncio.create_task(self._until_answered(call, request, self._correlation))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def close(self) -> None:
        """Give up all that is under way. Idempotent."""
        for task in self._tasks:
            task.cancel()
        self._forwarder.close()

    async def _until_answered(self, call: Call, request: Forwarded, correlation: int) -> None:
        timeout_ms = _timeout_ms(call)
        try:
            response = await self._forwarder.forward(request, timeout_ms / 1000)
            body = _body(call, response, correlation)
        except ControllerNotFoundError as error:
            why = f"no active controller took it within {timeout_ms} ms, nothing was written"
            self._refuse(call, ApiError.REQUEST_TIMED_OUT, f"{why}: {error}")
        except EnvelopeRefusedError as error:
            self._refuse(call, _error_of(error), str(error))
        except UnsupportedVersionError as error:
            self._refuse(call, ApiError.UNSUPPORTED_VERSION, str(error))
        except WireError as error:
            why = "the controller's answer was lost, the operation may still take effect"
            self._refuse(call, ApiError.REQUEST_TIMED_OUT, f"{why}: {error}")
        else:
            call.reply(body)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            task.get_loop().call_exception_handler(
                {"message": "a request could not be forwarded", "exception": error}
            )


def anonymous_principal() -> bytes:
    """The principal of a client on a listener without authentication."""
    data = DefaultPrincipalData(type_="User", name="ANONYMOUS", token_authenticated=False)
    return _PRINCIPAL_VERSION + encode(data)


def _request(call: Call, correlation: int) -> Forwarded:
    """The call in bytes, under a correlation id of ours."""
    body = encode(call.body)
    frame = request_frame(call.schema, correlation, (call.client_id or "").encode(), body)
    header = frame[_LENGTH_BYTES : len(frame) - len(body)]
    return Forwarded(call.api_key, call.version, header, body, call.peer[0])


def _body(call: Call, response: bytes, correlation: int) -> bytes:
    """The body of a response; raises RemoteProtocolError."""
    schema = api_schema(call.api_key, call.version)
    came, offset = read_response_head(response, flexible=schema.flexible_response_header)
    if came != correlation:
        raise RemoteProtocolError(f"an envelope answers {came}, {correlation} was asked")
    return response[offset:]


def _timeout_ms(call: Call) -> int:
    """Give the time that the client waits; requests that name none wait as long as they may."""
    timeout = getattr(call.body, "timeout", None)
    if timeout is None:
        return TIMEOUT_MS_MAX
    return min(max(milliseconds(timeout), TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)


def _error_of(refusal: EnvelopeRefusedError) -> ApiError:
    """A version too new for the controller is the client's matter, a broken envelope is not."""
    if refusal.error == ApiError.UNSUPPORTED_VERSION:
        return ApiError.UNSUPPORTED_VERSION
    return ApiError.UNKNOWN_SERVER_ERROR


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _LOOPBACK.packed  # the peer was gone before its address was asked for
