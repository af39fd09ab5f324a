"""A broker's producer ids: blocks of them from the active controller, given out one by one.

A block that the controller has committed goes to nobody else (KIP-730), so two brokers never give
the same id, nor does a broker after a restart: what was left of its block is never used. Whoever
asks while there is no id is told to come again, for the next block is on its way.

Source: Kafka's RPCProducerIdManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from node.broker.exchange import Channel
from node.controller.errors import ApiError
from node.wire.api import ApiKey
from node.wire.errors import WireError
from node.wire.payloads import ApiSchema
from node.wire.structs import build

log = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 50
REQUEST_TIMEOUT_S: Final = 5.0
_MAX_ID: Final = (1 << 63) - 1


class ProducerIdBlocks:
    """The ids at hand: of the present block, then of the next one. Pure."""

    def __init__(self) -> None:
        self._current = self._next = range(0)
        self._ask_below = 0  # a new block is wanted when so few ids are left
        self._end = 0  # no id below it will be taken from the controller again

    @property
    def wants_block(self) -> bool:
        """Tell whether to ask for a block now: at most a tenth of the present one is left."""
        return not self._next and len(self._current) <= self._ask_below

    def take(self) -> int | None:
        """An id that was never given before; None while there is none."""
        if not self._current:
            self._current, self._next = self._next, range(0)
            self._ask_below = len(self._current) // 10
        if not self._current:
            return None
        id_, self._current = self._current[0], self._current[1:]
        return id_

    def give(self, start: int, length: int) -> bool:
        """Take over a block of the controller's; False if it cannot be one.

        It must be of ids that exist, and above all blocks before it.
        """
        if start < self._end or length <= 0 or start > _MAX_ID - length:
            return False
        self._next = range(start, start + length)
        self._end = start + length
        return True


class ProducerIds:
    """Gives out ids and sees to it that there are some. Call in a running event loop.

    Args:
        broker_id: Whose ids these are.
        broker_epoch: The epoch of its registration, -1 before it: then no block can be had.
        channel: A way to the active controller of its own; closed by ``close``.
        now_ms: The clock of the pauses between two tries.
        on_fatal: Told of an error that is no failure of the network.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: Channel,
        *,
        now_ms: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._blocks = ProducerIdBlocks()
        self._asking: asyncio.Task[None] | None = None
        self._not_before_ms = 0
        self._closed = False

    def take(self) -> int | None:
        """An id that nobody was ever given; None: come again in a moment."""
        id_ = self._blocks.take()
        if self._blocks.wants_block:
            self._ask()
        return id_

    def close(self) -> None:
        """Ask for no more. Idempotent."""
        self._closed = True
        if self._asking is not None:
            self._asking.cancel()
        self._channel.close()

    def _ask(self) -> None:
        """Ask for a block, unless that is under way, hopeless, or has failed just now."""
        hopeless = self._closed or self._broker_epoch() < 0
        if self._asking is None and not hopeless and self._now_ms() >= self._not_before_ms:
            self._asking = asyncio.create_task(self._fetch())
            self._asking.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_fatal(error)

    async def _fetch(self) -> None:
        why = await self._failure()
        if why is not None:
            self._not_before_ms = self._now_ms() + RETRY_BACKOFF_MS
            log.warning("broker %d gets no producer ids yet: %s", self._broker_id, why)

    async def _failure(self) -> str | None:
        """Ask once; returns why no block came of it. A block whose answer is lost stays unused."""
        try:
            answer = await self._channel.request(
                ApiKey.ALLOCATE_PRODUCER_IDS, self._request, REQUEST_TIMEOUT_S
            )
        except WireError as error:
            return str(error)
        if int(answer.error_code) != ApiError.NONE:
            return f"the controller answered with error {int(answer.error_code)}"
        start, length = int(answer.producer_id_start), int(answer.producer_id_len)
        if not self._blocks.give(start, length):
            return f"{length} ids from {start} on are no new block"
        return None

    def _request(self, schema: ApiSchema) -> Any:
        return build(schema.request, broker_id=self._broker_id, broker_epoch=self._broker_epoch())
