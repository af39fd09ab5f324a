"""The calling side: one request at a time, and an error with a name for each way it can end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from node.core.messages import DescribeQuorumRequest, Error, FetchRequest, FetchResponse
from node.core.types import Endpoint, ReplicaKey
from node.wire import codec
from node.wire.api import ALL_APIS
from node.wire.connection import Connection
from node.wire.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    WireError,
)
from node.wire.payloads import api_schema, encode, response_frame
from node.wire.server import InboundRequest
from node.wire.structs import NO_THROTTLE, build
from tests.support.wire.server import quorum_answer, serving, until

DESCRIBE = codec.encode_request(DescribeQuorumRequest(), 2)
TIMEOUT_S = 10.0

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@contextlib.asynccontextmanager
async def peer(behave: Peer) -> AsyncIterator[Endpoint]:
    """A peer that behaves so, once per connection."""

    tasks: list[asyncio.Task[Any] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await behave(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Endpoint("127.0.0.1", listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        await listener.wait_closed()
        await asyncio.gather(*[task for task in tasks if task is not None])


def answering(make: Callable[[int], bytes]) -> Peer:
    """A peer that writes ``make(correlation)`` for each request."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            writer.write(make(struct.unpack_from(">i", request, 4)[0]))
            await writer.drain()

    return behave


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


def good(correlation: int) -> bytes:
    return response_frame(correlation, encode(quorum_answer()), flexible=True)


# ------------------------------------------------------------------ requests


def test_requests_are_answered_one_after_another() -> None:
    async def main() -> None:
        def handler(request: InboundRequest) -> None:
            assert request.client_id == "krucible"
            request.reply(quorum_answer())

        async with serving(handler) as (server, told):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                for _ in range(20):
                    assert await connection.request(DESCRIBE, TIMEOUT_S) == quorum_answer()
                request: Any = codec.request_to_wire(DescribeQuorumRequest(), 2)
                assert await connection.request(request, TIMEOUT_S) == quorum_answer()
                assert (connection.is_open, connection.is_busy) == (True, False)
            assert (connection.is_open, connection.is_busy) == (False, False)
            await until(lambda: told.gone == [1])
            assert told.rejected == []

    asyncio.run(main())


def test_the_source_address_is_ours_to_choose() -> None:
    async def main() -> None:
        async with serving() as (server, told):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint, source_host="127.77.3.1") as connection:
                asking = asyncio.ensure_future(connection.request(DESCRIBE, TIMEOUT_S))
                await until(lambda: told.requests)
                assert told.requests[0].peer[0] == "127.77.3.1"
                told.requests[0].reply(quorum_answer())
                await asking

    asyncio.run(main())


def test_a_large_answer_comes_whole() -> None:
    async def main() -> None:
        records = bytes(range(256)) * 40_000
        response = FetchResponse(Error.NONE, 3, 1)

        def handler(request: InboundRequest) -> None:
            request.reply(codec.answer(response, request.version, records))

        async with serving(handler) as (server, _):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                fetch = FetchRequest(ReplicaKey(1), 3, 0, 0, 0, 1 << 24)
                for _ in range(2):
                    entity: Any = await connection.request(
                        codec.encode_request(fetch, 18), TIMEOUT_S
                    )
                    assert entity.responses[0].partitions[0].records == records

    asyncio.run(main())


def test_callbacks_do_as_well_as_tasks() -> None:
    async def main() -> None:
        async with serving(lambda r: r.reply(quorum_answer())) as (server, _):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                results: list[ResponsePayload | WireError] = []

                def again(result: ResponsePayload | WireError) -> None:
                    results.append(result)
                    if len(results) < 50:
                        connection.send(DESCRIBE, TIMEOUT_S, again)

                connection.send(DESCRIBE, TIMEOUT_S, again)
                await until(lambda: len(results) == 50)
                assert results == [quorum_answer()] * 50

    asyncio.run(main())


def test_a_second_request_in_flight_is_our_fault() -> None:
    async def main() -> None:
        async with serving() as (server, told):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                first = asyncio.ensure_future(connection.request(DESCRIBE, TIMEOUT_S))
                await until(lambda: told.requests)
                assert connection.is_busy
                with pytest.raises(LocalProtocolError, match="still in flight"):
                    await connection.request(DESCRIBE, TIMEOUT_S)
                told.requests[0].reply(quorum_answer())
                assert await first == quorum_answer()

    asyncio.run(main())


# ------------------------------------------------------------------ failures


def test_nobody_there() -> None:
    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(ConnectFailed, match=str(port)):
                await Connection.open(Endpoint("127.0.0.1", port))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("endpoint", "source_host"),
    [
        (Endpoint("127.0.0.1", 70_000), None),
        (Endpoint("127.0.0.1", -1), None),
        (Endpoint("a" * 300, 9093), None),
        (Endpoint("a\0b", 9093), None),
        (Endpoint("127.0.0.1", 9), "203.0.113.7"),
    ],
)
def test_addresses_that_are_none(endpoint: Endpoint, source_host: str | None) -> None:
    async def main() -> None:
        with pytest.raises(ConnectFailed):
            await Connection.open(endpoint, source_host=source_host)

    asyncio.run(main())


def test_a_peer_that_never_accepts() -> None:
    async def main() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            endpoint = Endpoint(*full.getsockname())
            async with contextlib.AsyncExitStack() as stack:

                async def open_many() -> None:
                    for _ in range(10):  # the kernel's backlog takes the first ones
                        connection = await Connection.open(endpoint, connect_timeout_s=0.05)
                        await stack.enter_async_context(connection)

                with pytest.raises(ConnectFailed, match=r"no answer in 0\.05 s"):
                    await open_many()

    asyncio.run(main())


def failing(behave: Peer, error: type[WireError], match: str, timeout_s: float = TIMEOUT_S) -> None:
    """A request to such a peer ends so, and the connection is closed for good."""

    async def main() -> None:
        async with peer(behave) as endpoint, await Connection.open(endpoint) as connection:
            with pytest.raises(error, match=match):
                await connection.request(DESCRIBE, timeout_s)
            assert not connection.is_open
            assert not connection.is_busy
            with pytest.raises(Disconnected, match="is closed"):
                await connection.request(DESCRIBE, TIMEOUT_S)

    asyncio.run(main())


def test_no_answer_in_time_closes() -> None:
    failing(silent, RequestTimedOut, r"DescribeQuorumRequest v2 in 0\.03 s", timeout_s=0.03)


def test_the_peer_hangs_up() -> None:
    async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    failing(hang_up, Disconnected, "closed by the peer")


def test_the_peer_resets() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    failing(reset, Disconnected, "reset by peer")


def test_half_an_answer_and_then_nothing() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(good(1)[:9])

    failing(half, Disconnected, "closed by the peer")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda c: good(c + 1), "answer to request 2 came, 1 is in flight"),
        (lambda c: good(c) + good(c), "more bytes than one answer"),
        (lambda _: struct.pack(">i", -1), "frame length -1"),
        (lambda _: struct.pack(">i", 2**30), "frame length"),
        (lambda _: struct.pack(">ih", 2, 0), "has no header"),
        (lambda c: struct.pack(">iibh", 7, c, 0, 0), "ends too early"),
        (lambda c: struct.pack(">iibh", 14, c, 0, 0) + b"\0\xff\xff\xff\xff\x07\0", "announces"),
    ],
)
def test_an_answer_that_breaks_the_protocol(make: Callable[[int], bytes], match: str) -> None:
    failing(answering(make), RemoteProtocolError, match)


def test_an_answer_without_a_request_closes() -> None:
    async def eager(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(good(0))
        await reader.read()

    async def main() -> None:
        async with peer(eager) as endpoint, await Connection.open(endpoint) as connection:
            await until(lambda: not connection.is_open)

    asyncio.run(main())


def test_closing_ends_the_request_in_flight() -> None:
    async def main() -> None:
        async with peer(silent) as endpoint, await Connection.open(endpoint) as connection:
            asking = asyncio.ensure_future(connection.request(DESCRIBE, TIMEOUT_S))
            await until(lambda: connection.is_busy)
            connection.close()
            connection.close()
            with pytest.raises(Disconnected, match="closed by us"):
                await asking

    asyncio.run(main())


def test_a_cancelled_request_closes_so_that_its_answer_is_never_mistaken() -> None:
    async def main() -> None:
        async with peer(silent) as endpoint, await Connection.open(endpoint) as connection:
            asking = asyncio.ensure_future(connection.request(DESCRIBE, TIMEOUT_S))
            await until(lambda: connection.is_busy)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert not connection.is_open

    asyncio.run(main())


# ------------------------------------------------------------------ versions


def test_both_sides_agree_on_versions() -> None:
    async def main() -> None:
        async with serving() as (server, _):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                negotiated = await connection.negotiate(TIMEOUT_S)
                assert connection.negotiated is negotiated
                for api in ALL_APIS.values():
                    assert negotiated.version(api.key) == api.max_version
                with pytest.raises(UnsupportedVersionError, match="API 0"):
                    negotiated.version(0)

    asyncio.run(main())


def test_an_old_peer_is_asked_again_in_version_0() -> None:
    payload = api_schema(18, 0).response
    only = build(payload, "ApiVersion", api_key=18, min_version=0, max_version=0)
    fetch = build(payload, "ApiVersion", api_key=1, min_version=0, max_version=14)
    produce = build(payload, "ApiVersion", api_key=0, min_version=0, max_version=5)
    refusal = build(payload, error_code=ErrorCode.unsupported_version, api_keys=(only,))
    full = build(payload, error_code=ErrorCode.none, api_keys=(only, fetch, produce))
    answers = [refusal, full]

    async def main() -> None:
        old = answering(lambda c: response_frame(c, encode(answers.pop(0)), flexible=False))
        async with peer(old) as endpoint, await Connection.open(endpoint) as connection:
            negotiated = await connection.negotiate(TIMEOUT_S)
            assert negotiated.version(1) == 14
            assert negotiated.version(0) == 5  # not of our table, but there is a schema
            assert negotiated.version(18) == 0
            with pytest.raises(UnsupportedVersionError, match="does not serve API 52"):
                negotiated.version(52)

    asyncio.run(main())


def test_a_peer_that_will_not_say_its_versions() -> None:
    payload = api_schema(18, 3).response
    body = encode(
        build(
            payload,
            error_code=ErrorCode.cluster_authorization_failed,
            api_keys=(),
            throttle_time=NO_THROTTLE,
        )
    )

    async def main() -> None:
        refusing = answering(lambda c: response_frame(c, body, flexible=False))
        async with peer(refusing) as endpoint, await Connection.open(endpoint) as connection:
            with pytest.raises(UnsupportedVersionError, match="cluster_authorization_failed"):
                await connection.negotiate(TIMEOUT_S)

    asyncio.run(main())
