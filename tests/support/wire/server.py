"""A server that records what it was told, and a raw client for bytes of any kind."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from node.wire.api import ALL_APIS
from node.wire.payloads import api_schema, encode, request_frame
from node.wire.server import InboundRequest, Limits, Server
from node.wire.structs import build

DEADLINE_S = 10.0  # a test that waits longer has failed


@dataclass
class Told:
    """Everything a server said."""

    requests: list[InboundRequest] = field(default_factory=list)
    rejected: list[tuple[tuple[str, int], str]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why connections were closed."""
        return [reason for _, reason in self.rejected]


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; an error after DEADLINE_S."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - conditions here have no event
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[[InboundRequest], None] | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Server, Told]]:
    """A server on loopback; without a handler requests wait in ``told.requests``."""
    told = Told()
    server = Server(
        "127.0.0.1",
        0,
        handler or told.requests.append,
        limits=limits,
        on_reject=lambda peer, reason: told.rejected.append((peer, reason)),
        on_disconnect=told.gone.append,
        **{"apis": ALL_APIS, **options},
    )
    async with server:
        yield server, told


class RawClient:
    """A socket without manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[RawClient]:
        """Connect, and close at the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()  # what is not sent by now never will be
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def send(self, data: bytes) -> None:
        """Write bytes."""
        self._writer.write(data)
        await self._writer.drain()

    def finish(self) -> None:
        """Send no more."""
        self._writer.write_eof()

    async def frame(self) -> bytes:
        """Read one frame, without its length."""
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def closed(self) -> bool:
        """Whether the server closes; fails when it sends something instead."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return not await self._reader.read(1)
            except ConnectionError:
                return True

    async def drained(self) -> bytes:
        """Everything that comes until the server closes."""
        async with asyncio.timeout(DEADLINE_S):
            with contextlib.suppress(ConnectionError):
                return await self._reader.read()
            return b""


def describe_quorum(correlation: int, client: bytes = b"me") -> bytes:
    """A small valid request frame (API 55)."""
    schema = api_schema(55, 2)
    return request_frame(schema, correlation, client, encode(build(schema.request, topics=())))


def quorum_answer() -> Any:
    """A small answer to it."""
    payload = api_schema(55, 2).response
    return build(payload, error_code=ErrorCode.none, error_message=None, topics=(), nodes=())
