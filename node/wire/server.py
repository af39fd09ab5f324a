"""The listening side: Kafka requests in, one at a time per connection, replies out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Self

from node.wire.api import ApiTable
from node.wire.api_versions import NO_FEATURES, Features
from node.wire.limits import Limits
from node.wire.link import InboundRequest, Link, Peer, Shared

__all__ = ["InboundRequest", "Limits", "Peer", "Server"]

_BACKLOG: Final = 1024
_SWEEP_S_MAX: Final = 5.0
_SWEEP_S_MIN: Final = 0.02


class Server:
    """A listener for Kafka's protocol.

    ApiVersions is answered here; every other request of ``apis`` goes to ``handler``, decoded.
    The next frame of a connection is looked at only when the request before it was answered
    (Kafka mutes the channel). Input that breaks the protocol closes its connection with exactly
    one ``on_reject(peer, reason)`` and nothing else, and so does a TLS handshake that fails.

    Args:
        host: Where to listen.
        port: 0 = any; ``start`` then says which.
        handler: Takes the decoded requests.
        apis: What is served.
        limits: What clients are granted; None = ``Limits.of_process``.
        on_reject: Told of each connection that is closed because of the peer.
        on_disconnect: Told the id of each connection that is gone.
        ssl_context: Speak TLS only (``TlsConfig.server_context``).
        features: The feature levels to tell in ApiVersions, asked at each request.
    """

    def __init__(  # noqa: PLR0913 - every one is a choice of the caller
        self,
        host: str,
        port: int,
        handler: Callable[[InboundRequest], None],
        *,
        apis: ApiTable,
        limits: Limits | None = None,
        on_reject: Callable[[Peer, str], None],
        on_disconnect: Callable[[int], None] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        features: Callable[[], Features] = lambda: NO_FEATURES,
    ) -> None:
        self.host = host
        self.port = port
        self._on_disconnect = on_disconnect
        self._shared = Shared(
            apis=apis,
            limits=limits or Limits.of_process(),
            features=features,
            handler=handler,
            on_reject=on_reject,
            ssl_context=ssl_context,
            opened=self._opened,
            closed=self._closed,
        )
        self._links: dict[int, Link] = {}
        self._made: set[Link] = set()  # that are not lost yet; some are not counted, or not yet
        self._connections = 0
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None

    async def start(self) -> None:
        """Listen; with port 0 ``port`` then says which one it became. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._make, self.host, self.port, backlog=_BACKLOG
        )
        self._shared.listens = True
        self.port = self._listener.sockets[0].getsockname()[1]
        self._sweep()

    async def close(self) -> None:
        """Stop listening and close every connection; returns when all are closed. Idempotent."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._shared.listens = False
        if self._sweeper is not None:
            self._sweeper.cancel()
        # Accept nobody more, and let those who were accepted just now have their links: of a server
        # that is closed before that, asyncio loses the socket (CPython 3.11, ``Server._attach``).
        for each in listener.sockets:
            asyncio.get_running_loop().remove_reader(each.fileno())
        await asyncio.sleep(0)
        listener.close()
        if self._made:
            self._drained = asyncio.Event()
            for link in list(self._links.values()):
                link.abort()
            await self._drained.wait()
        await listener.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._links)

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that wait in all connections."""
        return self._shared.buffered_bytes

    @property
    def handshakes(self) -> int:
        """The number of TLS handshakes under way."""
        return self._shared.handshakes

    def _make(self) -> Link:
        link = Link(self._shared, asyncio.get_running_loop())
        self._made.add(link)
        return link

    def _opened(self, link: Link) -> int | None:
        """Count a new connection and give it its id; None when there are too many."""
        if len(self._links) >= self._shared.limits.connections_max:
            return None
        self._connections += 1
        self._links[self._connections] = link
        return self._connections

    def _closed(self, link: Link) -> None:
        """A connection is gone, whether it was counted or not."""
        if link.id:
            del self._links[link.id]
            if self._on_disconnect is not None:
                self._on_disconnect(link.id)
        self._made.discard(link)
        if not self._made and self._drained is not None:
            self._drained.set()

    def _sweep(self) -> None:
        """Reject what stood still for too long, and come back."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for link in list(self._links.values()):
            link.check_deadline(now)
        limits = self._shared.limits
        shortest = min(limits.frame_timeout_s, limits.idle_timeout_s, limits.handshake_timeout_s)
        pause = min(max(shortest / 4, _SWEEP_S_MIN), _SWEEP_S_MAX)
        self._sweeper = loop.call_later(pause, self._sweep)
