"""Outgoing requests of the quorum: one channel per peer, one request in flight on each.

A channel connects when it has something to send and keeps the connection. Every ``Send`` ends
with exactly one ``ResponseReceived`` or ``SendFailed``, except after ``reset``, which forgets
everything in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from node.core.effects import Send
from node.core.inputs import ResponseReceived, SendFailed
from node.core.messages import Batch, Response
from node.core.types import Endpoint
from node.log.batch import CorruptBatchError, iter_batches
from node.wire.errors import UnsupportedVersionError, WireError
from node.wire.network import QuorumCaller

log = logging.getLogger("krucible.node")

Submit = Callable[[ResponseReceived | SendFailed], None]
Connect = Callable[[Endpoint, float], Awaitable[QuorumCaller]]  # within so many seconds

CONNECT_TIMEOUT_S = 1.0
QUEUE_MAX = 64  # requests waiting for one peer; the core keeps far fewer in flight


@dataclass(slots=True)
class _Channel:
    """Requests to one peer at one endpoint."""

    endpoint: Endpoint
    queue: deque[Send] = field(default_factory=deque)
    connection: QuorumCaller | None = None
    connecting: asyncio.Task[None] | None = None
    is_busy: bool = False  # with a request, or connecting for one
    is_dropped: bool = False  # whatever still comes is for nobody
    drained: asyncio.Future[None] | None = None  # somebody waits until it is not busy


class Peers:
    """Sends the core's requests and hands the answers to ``submit``.

    Args:
        submit: Takes the answers.
        connect: Opens a connection to a peer; raises WireError.
        on_error: Told when a request ended in a way that cannot be; the node must not go on.
    """

    def __init__(
        self,
        submit: Submit,
        connect: Connect,
        *,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._submit = submit
        self._connect = connect
        self._on_error = on_error
        self._channels: dict[tuple[int, Endpoint], _Channel] = {}
        self._failing: dict[Endpoint, str] = {}  # what was said of those that do not answer

    def send(self, effect: Send) -> None:
        """Queue a request for its peer."""
        key = (effect.peer, effect.endpoint)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel(effect.endpoint)
        if not channel.is_busy:
            self._begin(channel, effect)
        elif len(channel.queue) < QUEUE_MAX:
            channel.queue.append(effect)
        else:
            self._submit(SendFailed(effect.peer, effect.correlation, "queue full"))

    def reset(self) -> None:
        """Forget everything in flight and drop the connections."""
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.is_dropped = True
            if channel.connecting is not None:
                channel.connecting.cancel()
            if channel.connection is not None:
                channel.connection.close()
            _tell_drained(channel)

    def close(self) -> None:
        """Drop everything for good."""
        self.reset()

    async def drain(self) -> None:
        """Wait until nothing that was sent before is in flight."""
        for channel in list(self._channels.values()):
            if channel.is_busy and not channel.is_dropped:
                if channel.drained is None:
                    channel.drained = asyncio.get_running_loop().create_future()
                await asyncio.shield(channel.drained)

    # ------------------------------------------------------------------ one channel

    def _begin(self, channel: _Channel, send: Send) -> None:
        """Send one request on a channel that is not busy."""
        channel.is_busy = True
        if channel.connection is not None and channel.connection.is_open:
            self._ask(channel, channel.connection, send)
            return
        channel.connecting = asyncio.create_task(self._open(channel, send))
        channel.connecting.add_done_callback(self._opened)

    async def _open(self, channel: _Channel, send: Send) -> None:
        limit_s = min(send.timeout_ms / 1000, CONNECT_TIMEOUT_S)
        try:
            connection = await self._connect(channel.endpoint, limit_s)
        except WireError as error:
            self._failed(channel, send, error)
            return
        channel.connection = connection
        self._ask(channel, connection, send)

    def _opened(self, task: asyncio.Task[None]) -> None:
        """A task that dies of anything but cancellation would leave its peer without answers."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_error(error)

    def _ask(self, channel: _Channel, connection: QuorumCaller, send: Send) -> None:
        answered = partial(self._answered, channel, send)
        try:
            connection.send(send.request, send.timeout_ms / 1000, answered)
        except WireError as error:
            self._failed(channel, send, error)

    def _answered(self, channel: _Channel, send: Send, outcome: Response | Exception) -> None:
        if channel.is_dropped:
            return
        if isinstance(outcome, Exception):
            self._failed(channel, send, outcome)
            return
        if self._failing and self._failing.pop(channel.endpoint, None) is not None:
            log.info("%s answers again", channel.endpoint)
        self._submit(ResponseReceived(send.peer, send.correlation, outcome))
        self._next(channel)

    def _failed(self, channel: _Channel, send: Send, error: Exception) -> None:
        unsupported = isinstance(error, UnsupportedVersionError)
        if not unsupported:
            if not isinstance(error, WireError | CorruptBatchError):
                self._on_error(error)
                return
            self._complain(channel.endpoint, str(error))
            if channel.connection is not None:
                channel.connection.close()  # no order of requests is known on it any more
        self._submit(
            SendFailed(send.peer, send.correlation, str(error), unsupported_version=unsupported)
        )
        self._next(channel)

    def _next(self, channel: _Channel) -> None:
        channel.is_busy = False
        if channel.queue:
            self._begin(channel, channel.queue.popleft())
        else:
            _tell_drained(channel)

    def _complain(self, endpoint: Endpoint, why: str) -> None:
        """Say why a peer does not answer, once for as long as the reason is the same."""
        if self._failing.get(endpoint) != why:
            self._failing[endpoint] = why
            log.warning("no answer from a peer: %s", why)


def _tell_drained(channel: _Channel) -> None:
    drained, channel.drained = channel.drained, None
    if drained is not None and not drained.done():
        drained.set_result(None)


def parse_records(data: bytes) -> tuple[Batch, ...]:
    """The whole batches of a fetch; the last may be cut by the size limit."""
    return tuple(iter_batches(data, partial_tail=True))
