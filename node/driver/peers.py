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

from node.core.effects import Send
from node.core.inputs import ResponseReceived, SendFailed
from node.core.messages import Batch
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
    worker: asyncio.Task[None] | None = None
    wake: asyncio.Future[None] | None = None  # the worker waits for something to send
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Peers:
    """Sends the core's requests and hands the answers to ``submit``.

    Args:
        submit: Takes the answers.
        connect: Opens a connection to a peer; raises ConnectFailed.
        on_error: Told when a worker died; the node must not go on.
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
        if len(channel.queue) >= QUEUE_MAX:
            self._submit(SendFailed(effect.peer, effect.correlation, "queue full"))
            return
        channel.queue.append(effect)
        channel.idle.clear()
        if channel.worker is None:
            channel.worker = asyncio.create_task(self._work(channel))
            channel.worker.add_done_callback(self._worked)
        elif channel.wake is not None and not channel.wake.done():
            channel.wake.set_result(None)

    def reset(self) -> None:
        """Forget everything in flight and drop the connections."""
        for channel in self._channels.values():
            if channel.worker is not None:
                channel.worker.cancel()
            if channel.connection is not None:
                channel.connection.close()
            channel.idle.set()
        self._channels.clear()

    def close(self) -> None:
        """Drop everything for good."""
        self.reset()

    async def drain(self) -> None:
        """Wait until nothing that was sent before is in flight."""
        for channel in list(self._channels.values()):
            await channel.idle.wait()

    def _worked(self, worker: asyncio.Task[None]) -> None:
        """A worker that dies of anything but cancellation would leave its peer without answers."""
        error = None if worker.cancelled() else worker.exception()
        if error is not None:
            self._on_error(error)

    async def _work(self, channel: _Channel) -> None:
        """Send what there is to send, for as long as the channel is there."""
        while True:
            while channel.queue:
                self._submit(await self._outcome(channel, channel.queue.popleft()))
            channel.idle.set()
            channel.wake = asyncio.get_running_loop().create_future()
            await channel.wake

    async def _outcome(self, channel: _Channel, send: Send) -> ResponseReceived | SendFailed:
        try:
            answered = await self._exchange(channel, send)
        except UnsupportedVersionError as error:
            return SendFailed(send.peer, send.correlation, str(error), unsupported_version=True)
        except (WireError, CorruptBatchError) as error:
            self._complain(channel.endpoint, str(error))
            if channel.connection is not None:
                channel.connection.close()  # no order of requests is known on it any more
            return SendFailed(send.peer, send.correlation, str(error))
        if self._failing and self._failing.pop(channel.endpoint, None) is not None:
            log.info("%s answers again", channel.endpoint)
        return answered

    def _complain(self, endpoint: Endpoint, why: str) -> None:
        """Say why a peer does not answer, once for as long as the reason is the same."""
        if self._failing.get(endpoint) != why:
            self._failing[endpoint] = why
            log.warning("no answer from a peer: %s", why)

    async def _exchange(self, channel: _Channel, send: Send) -> ResponseReceived:
        timeout_s = send.timeout_ms / 1000
        if channel.connection is None or not channel.connection.is_open:
            limit_s = min(timeout_s, CONNECT_TIMEOUT_S)
            channel.connection = await self._connect(channel.endpoint, limit_s)
        response = await channel.connection.ask(send.request, timeout_s)
        return ResponseReceived(send.peer, send.correlation, response)


def parse_records(data: bytes) -> tuple[Batch, ...]:
    """The whole batches of a fetch; the last may be cut by the size limit."""
    return tuple(iter_batches(data, partial_tail=True))
