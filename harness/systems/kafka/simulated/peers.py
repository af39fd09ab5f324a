"""Requests of a Kafka node to others, one connection per destination as in its NetworkClient.

One request at a time is in flight on a connection, in the highest version that both ends speak; one
that cannot be said in that fails. A connection that cannot be made, or breaks, or on which an
answer is late, fails whatever waits for it; then there is a pause before the next.
Source: Kafka 4.1, ``KafkaNetworkChannel``, ``NetworkClient``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from node.core.types import Endpoint
from node.sim.network import VirtualConnection, VirtualNetwork
from node.wire.errors import UnsupportedVersionError, WireError

RECONNECT_S: Final = 0.05  # reconnect.backoff.ms of KafkaRaftManager; doubles up to
RECONNECT_MAX_S: Final = 0.5
CONNECT_TIMEOUT_S: Final = 10.0  # socket.connection.setup.timeout.ms


class Asked(NamedTuple):
    """A request, encoded."""

    correlation: int
    api_key: int
    version: int
    body: bytes


class Recode(Protocol):
    """Writes a request or an answer anew, in another version; None: it cannot be said in that."""

    def __call__(  # noqa: D102 - see above
        self, api_key: int, was: int, wanted: int, body: bytes, *, is_request: bool
    ) -> bytes | None: ...


class Failed(NamedTuple):
    """No answer: the code of an error, and whether the request was still waiting to be sent."""

    code: int
    unsent: bool = False


Done = Callable[[int, bytes | Failed], None]  # takes a correlation
BROKER_NOT_AVAILABLE: Final = 8  # how a channel tells that a request failed
UNSUPPORTED_VERSION: Final = 35


@dataclass(slots=True)
class _Peer:
    endpoint: Endpoint
    queue: deque[Asked] = field(default_factory=deque)
    connection: VirtualConnection | None = None
    connecting: asyncio.Task[None] | None = None
    failures: int = 0  # to connect, in a row
    not_before_s: float = 0.0


class Peers:
    """The peers of a node, by endpoint.

    Args:
        network: The host's.
        timeout_s: For an answer (``controller.quorum.request.timeout.ms``).
        done: Told how each request ended.
        recode: Puts a request into the version of the other end, and its answer back.
    """

    def __init__(
        self, network: VirtualNetwork, timeout_s: float, done: Done, recode: Recode
    ) -> None:
        self._network = network
        self._timeout_s = timeout_s
        self._done = done
        self._recode = recode
        self._peers: dict[Endpoint, _Peer] = {}
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

    def send(self, endpoint: Endpoint, asked: Asked) -> None:
        """Send a request as soon as its turn comes; none any more once this was closed."""
        if self._is_closed:
            return
        peer = self._peers.get(endpoint)
        if peer is None:
            peer = self._peers[endpoint] = _Peer(endpoint)
        peer.queue.append(asked)
        self._go_on(peer)

    def close(self) -> None:
        """Close all connections; nobody hears of what was in flight."""
        self._is_closed = True
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close()
            if peer.connecting is not None:
                peer.connecting.cancel()
        self._peers.clear()

    def _go_on(self, peer: _Peer) -> None:
        if not peer.queue or peer.connecting is not None:
            return
        connection = peer.connection
        if connection is None or not connection.is_open:
            peer.connecting = self._loop.create_task(self._connect(peer))
        elif not connection.is_busy:
            self._ask(peer, connection, peer.queue.popleft())

    async def _connect(self, peer: _Peer) -> None:
        wait_s = peer.not_before_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        timeout_s = min(self._timeout_s, CONNECT_TIMEOUT_S)
        try:
            connection = await self._network.connect(peer.endpoint, timeout_s=timeout_s)
            await connection.negotiate(self._timeout_s)
        except WireError:
            peer.connecting = None
            self._broke(peer)
            return
        peer.connection, peer.connecting, peer.failures = connection, None, 0
        self._go_on(peer)

    def _ask(self, peer: _Peer, connection: VirtualConnection, asked: Asked) -> None:
        version, body = self._spoken(connection, asked)
        if body is None:
            self._done(asked.correlation, Failed(UNSUPPORTED_VERSION))
            self._go_on(peer)
            return

        def answered(outcome: bytes | WireError) -> None:
            if isinstance(outcome, bytes):
                answer = self._in_version(
                    asked.api_key, version, asked.version, outcome, is_request=False
                )
                assert answer is not None, "an answer says no more in a later version"  # noqa: S101
                self._done(asked.correlation, answer)
                self._go_on(peer)
            else:
                peer.connection = None
                self._done(asked.correlation, Failed(BROKER_NOT_AVAILABLE))
                self._broke(peer)

        try:
            connection.send_bytes(asked.api_key, version, body, self._timeout_s, answered)
        except WireError:
            peer.connection = None
            self._done(asked.correlation, Failed(BROKER_NOT_AVAILABLE))
            self._broke(peer)

    def _spoken(self, connection: VirtualConnection, asked: Asked) -> tuple[int, bytes | None]:
        """The request in a version that the other end speaks; None: there is none."""
        assert connection.negotiated is not None, "negotiated before it is used"  # noqa: S101
        try:
            version = min(asked.version, connection.negotiated.version(asked.api_key))
        except UnsupportedVersionError:
            return asked.version, None
        return version, self._in_version(
            asked.api_key, asked.version, version, asked.body, is_request=True
        )

    def _in_version(
        self, api_key: int, was: int, wanted: int, body: bytes, *, is_request: bool
    ) -> bytes | None:
        return (
            body
            if was == wanted
            else self._recode(api_key, was, wanted, body, is_request=is_request)
        )

    def _broke(self, peer: _Peer) -> None:
        """Fail what waits, and make a pause before the next connection."""
        pause_s = min(RECONNECT_MAX_S, RECONNECT_S * 2**peer.failures)
        peer.failures = min(peer.failures + 1, 10)
        peer.not_before_s = self._loop.time() + pause_s
        waiting, peer.queue = peer.queue, deque()
        for asked in waiting:
            self._done(asked.correlation, Failed(BROKER_NOT_AVAILABLE, unsent=True))
