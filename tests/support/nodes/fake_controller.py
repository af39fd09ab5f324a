"""A controller on loopback that knows one broker: just enough to live with."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from kio.schema.errors import ErrorCode

from node.core.types import Endpoint
from node.wire.api import ALL_APIS, ApiKey
from node.wire.connection import Connection
from node.wire.payloads import api_schema
from node.wire.server import InboundRequest, Server
from node.wire.structs import NO_THROTTLE, build

REGISTRATION, HEARTBEAT = ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT
Script = Callable[[InboundRequest], None]


class FakeController:
    """Answers as a controller whose log ends at ``broker_epoch``; ``script`` goes before.

    Each entry of ``script`` handles one request: an error code to answer with, or a function.
    """

    def __init__(self) -> None:
        self.broker_epoch = 7
        self.active = True
        self.fences = False  # the session was lost
        self.leads = 0  # heartbeats of a shutdown to be told to wait
        self.script: deque[ErrorCode | Script] = deque()
        self.requests: list[tuple[int, Any]] = []
        self.connections: set[int] = set()
        self.server = Server("127.0.0.1", 0, self.handle, apis=ALL_APIS, on_reject=lambda *_: None)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[FakeController]:
        controller = cls()
        async with controller.server:
            yield controller

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.server.port)

    def bodies(self, api_key: int) -> list[Any]:
        """All requests of that API, oldest first."""
        return [body for key, body in self.requests if key == api_key]

    def handle(self, request: InboundRequest) -> None:
        self.requests.append((request.api_key, request.body))
        self.connections.add(request.connection)
        if not self.active:
            request.reply(answer(request, ErrorCode.not_controller))
            return
        if self.script:
            step = self.script.popleft()
            if isinstance(step, ErrorCode):
                request.reply(answer(request, step))
            else:
                step(request)
            return
        request.reply(getattr(self, f"_{ApiKey(request.api_key).name.lower()}")(request))

    def _broker_registration(self, request: InboundRequest) -> Any:
        return answer(request, broker_epoch=self.broker_epoch)

    def _broker_heartbeat(self, request: InboundRequest) -> Any:
        body = request.body
        caught_up = body.current_metadata_offset >= self.broker_epoch
        if body.want_shut_down:
            self.leads -= 1
        return answer(
            request,
            is_caught_up=caught_up,
            is_fenced=body.want_fence or not caught_up or self.fences,
            should_shut_down=body.want_shut_down and self.leads < 0,
        )

    def _allocate_producer_ids(self, request: InboundRequest) -> Any:
        return answer(request, producer_id_start=1000, producer_id_len=1000)

    def _envelope(self, request: InboundRequest) -> Any:
        return answer(request, response_data=request.body.request_data[::-1])


def answer(request: InboundRequest, error: ErrorCode = ErrorCode.none, **values: Any) -> Any:
    """A response to a request, without what does not go with the error."""
    defaults = {"broker_epoch": -1, "should_shut_down": False, "producer_id_start": -1}
    return build(
        api_schema(request.api_key, request.version).response,
        throttle_time=NO_THROTTLE,
        error_code=error,
        **{**defaults, "producer_id_len": 0, **values},
    )


async def connect(endpoint: Endpoint) -> Connection:
    """A connection as a node opens it."""
    return await Connection.open(endpoint, connect_timeout_s=1.0)
