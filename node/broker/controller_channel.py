"""A broker's own connection to the active controller: found again as it moves, one request at once.

A try that certainly did nothing (no controller known, none reached, or NOT_CONTROLLER) is repeated
until the time is up. One whose answer was lost is not: the caller knows whether it may be. Source:
Kafka's NodeToControllerChannelManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kio.static.protocol import RequestPayload

from node.controller.errors import ApiError
from node.core.types import Endpoint
from node.wire.api import ApiKey
from node.wire.errors import ConnectFailed, RemoteProtocolError, WireError
from node.wire.network import Caller
from node.wire.payloads import ApiSchema, api_schema
from node.wire.structs import build

RETRY_BACKOFF_MS: Final = 50
CONNECT_TIMEOUT_S: Final = 1.0

Connect = Callable[[Endpoint], Awaitable[Caller]]
MakeRequest = Callable[[ApiSchema], RequestPayload]


class ControllerNotFoundError(WireError):
    """Raised when no active controller took the request in time: nothing was done."""


class EnvelopeRefusedError(WireError):
    """Raised when the active controller refuses an envelope: nothing was done; ``error`` why."""

    def __init__(self, error: int) -> None:
        super().__init__(f"the controller refused the envelope with error {error}")
        self.error = error


class ControllerChannel:
    """Sends requests to whoever is the active controller.

    Args:
        active_controller: Where it is as far as this node knows, None when it does not.
        connect: Opens a connection; raises ConnectFailed.
        retry_backoff_ms: The pause between two tries.
    """

    def __init__(
        self,
        active_controller: Callable[[], Endpoint | None],
        connect: Connect,
        *,
        retry_backoff_ms: int = RETRY_BACKOFF_MS,
    ) -> None:
        self._active_controller = active_controller
        self._connect = connect
        self._retry_s = retry_backoff_ms / 1000
        self._connection: Caller | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def request(self, api_key: int, make: MakeRequest, timeout_s: float) -> Any:
        """Ask the active controller; returns its answer, whatever error it holds but 41.

        Args:
            api_key: Of an API whose response has an ``error_code`` of its own.
            make: The request in the version that both sides speak; called for each try.
            timeout_s: For waiting one's turn, all tries and the answer together.

        Raises:
            ControllerNotFoundError: No active controller took it: nothing was done.
            UnsupportedVersionError: The controller does not serve the API: nothing was done.
            WireError: The answer was lost or malformed; the outcome is unknown.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._turn.acquire()
        except TimeoutError:
            raise ControllerNotFoundError(
                f"{timeout_s} s went by while another request was in flight"
            ) from None
        try:
            return await self._until_answered(api_key, make, deadline_s)
        finally:
            self._turn.release()

    async def send_envelope(
        self,
        inner_request: bytes,
        principal: bytes,
        client_address: bytes,
        timeout_s: float,
    ) -> bytes:
        """Forward a client's request (header and body); returns the response's header and body.

        ``principal`` is a serialised KafkaPrincipal, ``client_address`` 4 or 16 bytes (KIP-590).

        Raises:
            EnvelopeRefusedError: The controller will not take it.
            WireError: As ``request``.
        """

        def make(schema: ApiSchema) -> RequestPayload:
            entity: RequestPayload = build(
                schema.request,
                request_data=inner_request,
                request_principal=principal,
                client_host_address=client_address,
            )
            return entity

        answer = await self.request(ApiKey.ENVELOPE, make, timeout_s)
        if int(answer.error_code):
            raise EnvelopeRefusedError(int(answer.error_code))
        if answer.response_data is None:
            raise RemoteProtocolError("an envelope came back without error and empty")
        return bytes(answer.response_data)

    def close(self) -> None:
        """Drop the connection; a request in flight ends as Disconnected. Idempotent."""
        self._closed = True
        self._drop()

    # ------------------------------------------------------------------ helpers

    async def _until_answered(self, api_key: int, make: MakeRequest, deadline_s: float) -> Any:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self._try(api_key, make, deadline_s - loop.time())
            except ControllerNotFoundError:
                if self._closed or loop.time() + self._retry_s >= deadline_s:
                    raise
            await asyncio.sleep(self._retry_s)

    async def _try(self, api_key: int, make: MakeRequest, left_s: float) -> Any:
        connection = await self._connected(left_s)
        negotiated = connection.negotiated
        assert negotiated is not None  # noqa: S101 - as connected
        schema = api_schema(api_key, negotiated.version(api_key))
        answer: Any = await connection.request(make(schema), left_s)
        if int(answer.error_code) == ApiError.NOT_CONTROLLER:
            self._drop()  # it may have been asked by a name that now leads elsewhere
            raise ControllerNotFoundError(f"{connection.endpoint} is not the active controller")
        return answer

    async def _connected(self, left_s: float) -> Caller:
        """The connection to the controller of now."""
        endpoint = None if self._closed else self._active_controller()
        if endpoint is None:
            self._drop()
            raise ControllerNotFoundError("no active controller is known")
        connection = self._connection
        if connection is not None and connection.is_open and connection.endpoint == endpoint:
            return connection
        self._drop()
        limit_s = min(left_s, CONNECT_TIMEOUT_S)
        try:
            async with asyncio.timeout(limit_s):
                connection = await self._connect(endpoint)
        except (ConnectFailed, TimeoutError) as error:
            why = str(error) or f"{endpoint}: no connection in {limit_s} s"
            raise ControllerNotFoundError(why) from error
        try:
            await connection.negotiate(left_s)
        except WireError as error:
            connection.close()
            raise ControllerNotFoundError(str(error)) from error
        except asyncio.CancelledError:
            connection.close()
            raise
        if self._closed:
            connection.close()
            raise ControllerNotFoundError("the channel was closed")
        self._connection = connection
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
