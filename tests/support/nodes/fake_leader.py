"""A leader that offers a snapshot, sends the first bytes of it and then nothing more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from node.core.messages import (
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Response,
    SnapshotRange,
)
from node.core.types import Endpoint, OffsetAndEpoch
from node.wire import codec
from node.wire.api import CONTROLLER_APIS, ApiKey
from node.wire.server import InboundRequest, Server

LEADER, EPOCH = 9, 3
OFFERED = OffsetAndEpoch(100, 2)
FIRST = b"the first bytes of a snapshot"
SIZE = 10 * len(FIRST)


@dataclass
class FakeLeader:
    """Counts how often it was asked for more than it gives."""

    host: str
    asked_for_more: int = 0
    rejected: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Endpoint]:
        """Serve; where."""
        server = Server(self.host, 0, self._answer, apis=CONTROLLER_APIS, on_reject=self._reject)
        await server.start()
        self.endpoint = Endpoint(self.host, server.port)
        try:
            yield self.endpoint
        finally:
            await server.close()

    def _reject(self, peer: tuple[str, int], reason: str) -> None:
        self.rejected.append(f"{peer}: {reason}")

    def _answer(self, request: InboundRequest) -> None:
        if request.api_key not in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT):
            return  # registrations wait
        message = codec.request_from_wire(request.api_key, request.version, request.body)
        answer: Response
        data = b""
        if isinstance(message, FetchRequest):
            answer = FetchResponse(
                Error.NONE,
                EPOCH,
                LEADER,
                high_watermark=OFFERED.offset,
                leader_endpoint=self.endpoint,
                snapshot=OFFERED,
            )
        else:
            assert isinstance(message, FetchSnapshotRequest)
            if message.position > 0:
                self.asked_for_more += 1
                return
            data = FIRST
            answer = FetchSnapshotResponse(
                Error.NONE,
                EPOCH,
                LEADER,
                leader_endpoint=self.endpoint,
                snapshot=OFFERED,
                size=SIZE,
                chunk=SnapshotRange(OFFERED, 0, len(data)),
            )
        request.reply(codec.answer(answer, request.version, data, message))
