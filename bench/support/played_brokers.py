"""Brokers that are played: they register, beat and fetch the metadata as real ones, and keep none.

One process plays all of them over Kafka's protocol, so controllers of either kind have the load of
a cluster whose brokers cost next to nothing. Of the batches of the log only the headers are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any
from uuid import UUID, uuid4

from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v3.request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i16, i64, u16

from bench.support.clients import connect
from bench.support.partitions import directory_of
from bench.support.quorum import CLUSTER_ID, HOST
from node.core.messages import Batch, Error, FetchRequest, FetchResponse, Response
from node.core.types import Endpoint, ReplicaKey
from node.metadata.features import default_features
from node.wire.connection import Connection
from node.wire.errors import WireError
from node.wire.network import QuorumCaller, Sockets

BEAT_S = 2.0  # Kafka's broker.heartbeat.interval.ms
HURRY_S = 0.05  # of a broker that waits to be unfenced, or to be allowed to stop
RETRY_S = 0.05
TIMEOUT_S = 120.0
FETCH_WAIT_MS = 500
FETCH_BYTES = 8 << 20
NEWS = 20  # records in one answer; fewer are what the quorum tells itself
_HEAD = Struct(">qii")  # base offset, length, epoch
_LENGTH_OVERHEAD = 12
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23


@dataclass
class PlayedBroker:
    """One broker, in service by the snapshot: its incarnation is UUID(int=id)."""

    id: int
    ports: Mapping[int, int]
    offset: int  # it has all below
    epoch: int  # of the record before
    broker_epoch: int
    incarnation: UUID = field(init=False)
    is_fenced: bool = True  # as it was told
    wants_to_stop: bool = False
    may_stop: asyncio.Event = field(default_factory=asyncio.Event)
    first_news: float | None = None  # time.monotonic of records fetched since the last ``mark``
    last_news: float | None = None
    _quorum_epoch: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.incarnation = UUID(int=self.id)

    def start(self) -> None:
        """Beat and fetch until ``stop``."""
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._fetch())]

    async def stop(self) -> None:
        """Die."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def restart(self) -> None:
        """Begin again as another incarnation."""
        self.incarnation, self.broker_epoch, self.is_fenced = uuid4(), -1, True
        self.start()

    def ask_to_stop(self) -> None:
        """Want a controlled shutdown from now on."""
        self.wants_to_stop = True
        self._bell.set()

    def mark(self) -> None:
        """Forget when metadata has come."""
        self.first_news = self.last_news = None

    # ------------------------------------------------------------------ its two loops

    async def _beat(self) -> None:
        while True:
            for port in self.ports.values():
                with suppress(WireError):
                    connection = await connect(port)
                    try:
                        await self._beat_at(connection)
                    finally:
                        connection.close()
                if self.may_stop.is_set():
                    return
            await asyncio.sleep(RETRY_S)

    async def _beat_at(self, connection: Connection) -> None:
        """Send heartbeats until this is not the active controller, or the broker may stop."""
        while True:
            if self.broker_epoch < 0:
                answer: Any = await connection.request(self._registration(), TIMEOUT_S)
                if int(answer.error_code):
                    return
                self.broker_epoch = int(answer.broker_epoch)
            request = BrokerHeartbeatRequest(
                broker_id=BrokerId(self.id),
                broker_epoch=i64(self.broker_epoch),
                current_metadata_offset=i64(self.offset - 1),
                want_fence=False,
                want_shut_down=self.wants_to_stop,
            )
            answer = await connection.request(request, TIMEOUT_S)
            if int(answer.error_code):
                return
            self.is_fenced = answer.is_fenced
            if answer.should_shut_down:
                self.may_stop.set()
                return
            self._bell.clear()
            pause_s = HURRY_S if self.wants_to_stop or self.is_fenced else BEAT_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), pause_s)

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=BrokerId(self.id),
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation,
            listeners=(
                Listener(
                    name="PLAINTEXT",
                    host="127.0.0.9",
                    port=u16(9000 + self.id),
                    security_protocol=i16(0),
                ),
            ),
            features=tuple(
                [
                    Feature(name=name, min_supported_version=i16(1), max_supported_version=i16(27))
                    for name in default_features()
                ]
            ),
            rack=None,
            log_dirs=(directory_of(self.id),),
        )

    async def _fetch(self) -> None:
        while True:
            for port in self.ports.values():
                with suppress(WireError):
                    caller = await Sockets().connect_to_replica(
                        Endpoint(HOST, port),
                        headers,
                        timeout_s=TIMEOUT_S,
                        tls=None,
                        listener_name="CONTROLLER",
                    )
                    try:
                        while await self._fetched(caller):
                            pass
                    finally:
                        caller.close()
            await asyncio.sleep(RETRY_S)

    async def _fetched(self, caller: QuorumCaller) -> bool:
        """Fetch once; False when this is not the leader. Raises WireError."""
        request = FetchRequest(
            ReplicaKey(self.id, None),
            self._quorum_epoch,
            self.offset,
            self.epoch,
            FETCH_WAIT_MS,
            FETCH_BYTES,
            None,
            CLUSTER_ID,
        )
        answered: asyncio.Future[Response | Exception] = self._loop.create_future()

        def done(outcome: Response | Exception) -> None:
            if not answered.done():
                answered.set_result(outcome)

        caller.send(request, TIMEOUT_S, done)
        response = await answered
        if isinstance(response, Exception):
            raise response
        assert isinstance(response, FetchResponse)
        self._quorum_epoch = max(self._quorum_epoch, response.epoch)
        if response.error is not Error.NONE:
            return response.error is Error.FENCED_LEADER_EPOCH
        anew = response.diverging or response.snapshot
        if anew is not None:  # it keeps nothing that it would have to cut or to load
            self.offset, self.epoch = anew
        before = self.offset
        for batch in response.batches:
            self.offset, self.epoch = batch.last_offset + 1, batch.epoch
        if self.offset - before >= NEWS:
            self.last_news = time.monotonic()
            self.first_news = self.first_news or self.last_news
        return True


def headers(data: bytes) -> tuple[Batch, ...]:
    """The whole batches of an answer, by their headers."""
    found, at = [], 0
    while at + _LAST_DELTA_AT + _LAST_DELTA.size <= len(data):
        base, length, epoch = _HEAD.unpack_from(data, at)
        if at + _LENGTH_OVERHEAD + length > len(data):
            break
        last = base + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0]
        found.append(Batch(base, last, epoch, 0, False, b""))
        at += _LENGTH_OVERHEAD + length
    return tuple(found)
