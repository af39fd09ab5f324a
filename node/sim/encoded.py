"""Calls of a simulated replica to one that takes nothing but Kafka's protocol.

They are encoded as on a real network, in the highest versions that both ends speak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kio.static.protocol import ResponsePayload

from node.wire.errors import WireError
from node.wire.payloads import EncodedRequest, decode


class SendsBytes(Protocol):
    """A connection that carries encoded requests, as ``VirtualConnection``."""

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        ...

    def send_bytes(
        self,
        api_key: int,
        version: int,
        body: bytes,
        timeout_s: float,
        done: Callable[[bytes | WireError], None],
    ) -> None:
        """Send a request; ``done`` gets the answer's body, or the error; raises WireError."""
        ...

    def close(self) -> None:
        """Close now. Idempotent."""
        ...


class EncodedCalls:
    """Such a connection as ``WireQuorumCaller`` wants it."""

    def __init__(self, connection: SendsBytes) -> None:
        self._connection: Final = connection

    @property
    def is_open(self) -> bool:
        """Tell whether requests can be sent."""
        return self._connection.is_open

    def send(
        self,
        request: EncodedRequest,
        timeout_s: float,
        done: Callable[[ResponsePayload | WireError], None],
    ) -> None:
        """Send a request; ``done`` gets the answer or the error, not within this call.

        Raises:
            WireError: It cannot be sent; ``done`` will not be called.
        """
        schema = request.schema

        def answered(outcome: bytes | WireError) -> None:
            if isinstance(outcome, WireError):
                done(outcome)
                return
            try:
                answer = decode(schema.response, outcome)
            except WireError as error:
                done(error)
                return
            done(answer)

        self._connection.send_bytes(schema.key, schema.version, request.body, timeout_s, answered)

    def close(self) -> None:
        """Close now. Idempotent."""
        self._connection.close()
