"""The server on loopback: order, limits, and one reason for each connection it closes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import socket
import struct
import threading
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from node.wire import link
from node.wire.api import ALL_APIS, BROKER_APIS, CONTROLLER_APIS, ApiKey, apis_of
from node.wire.errors import LocalProtocolError
from node.wire.payloads import api_schema, decode, encode, request_frame
from node.wire.server import InboundRequest, Limits
from node.wire.structs import build
from tests.support.wire.server import RawClient, describe_quorum, quorum_answer, serving, until


def api_versions(version: int, correlation: int = 7, name: str = "me") -> bytes:
    schema = api_schema(18, min(version, 4))
    body = encode(build(schema.request, client_software_name=name, client_software_version="1"))
    frame = bytearray(request_frame(schema, correlation, b"me", body))
    frame[6:8] = struct.pack(">h", version)
    return bytes(frame)


def answer(request: InboundRequest) -> None:
    request.reply(quorum_answer())


# ------------------------------------------------------------------ ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_api_versions_says_what_is_served(version: int) -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(api_versions(version))
            frame = await client.frame()
            assert frame[:4] == struct.pack(">i", 7)
            response: Any = decode(api_schema(18, version).response, frame, 4)
            assert response.error_code is ErrorCode.none
            assert {a.api_key: (a.min_version, a.max_version) for a in response.api_keys} == {
                a.key: (a.min_version, a.max_version) for a in ALL_APIS.values()
            }
            assert told.requests == []

    asyncio.run(main())


@pytest.mark.parametrize("version", [5, 32767])
def test_an_unknown_version_of_api_versions_is_told_which_there_are(version: int) -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            for _ in range(2):  # and the connection lives on
                await client.send(api_versions(version))
                response: Any = decode(api_schema(18, 0).response, await client.frame(), 4)
                assert response.error_code is ErrorCode.unsupported_version
                (only,) = response.api_keys
                assert (only.api_key, only.min_version, only.max_version) == (18, 0, 4)
            assert told.rejected == []

    asyncio.run(main())


def test_a_software_name_must_look_like_one() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(api_versions(3, name="-no-"))
            response: Any = decode(api_schema(18, 3).response, await client.frame(), 4)
            assert response.error_code is ErrorCode.invalid_request
            assert told.rejected == []

    asyncio.run(main())


# ------------------------------------------------------------------ requests and replies


def test_a_request_arrives_decoded_and_its_reply_goes_back() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(41, b"gr\xc3\xbcn"))
            await until(lambda: told.requests)
            (request,) = told.requests
            assert (request.api_key, request.version, request.correlation) == (55, 2, 41)
            assert request.client_id == "gr\u00fcn"
            assert request.peer[0] == "127.0.0.1"
            assert request.body == build(api_schema(55, 2).request, topics=())
            request.reply(quorum_answer())
            frame = await client.frame()
            assert frame[:5] == struct.pack(">ib", 41, 0)  # a flexible header
            assert frame[5:] == encode(quorum_answer())

    asyncio.run(main())


def test_a_reply_may_be_bytes_and_an_old_version_has_the_old_header() -> None:
    async def main() -> None:
        schema = api_schema(53, 0)
        body = encode(build(schema.request, cluster_id=None, topics=()))
        async with (
            serving(lambda request: request.reply(b"xyz")) as (server, _),
            RawClient.to(server.port) as client,
        ):
            await client.send(request_frame(schema, 9, b"", body))
            assert await client.frame() == struct.pack(">i", 9) + b"xyz"

    asyncio.run(main())


def test_the_next_request_is_looked_at_after_the_reply_to_the_one_before() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            hostile = struct.pack(">i", -1)
            await client.send(describe_quorum(1) + describe_quorum(2) + hostile)
            await until(lambda: told.requests)
            await asyncio.sleep(0.01)
            assert [r.correlation for r in told.requests] == [1]
            told.requests[0].reply(quorum_answer())
            await until(lambda: len(told.requests) == 2)
            assert told.rejected == []
            assert (await client.frame())[:4] == struct.pack(">i", 1)
            told.requests[1].reply(quorum_answer())
            await until(lambda: told.rejected)
            assert "frame length -1" in told.reasons[0]

    asyncio.run(main())


def test_connections_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        async with (
            serving() as (server, told),
            RawClient.to(server.port) as first,
            RawClient.to(server.port) as second,
        ):
            await first.send(describe_quorum(1))
            await until(lambda: len(told.requests) == 1)
            await second.send(describe_quorum(2))
            await until(lambda: len(told.requests) == 2)
            assert told.requests[0].connection != told.requests[1].connection
            told.requests[1].reply(quorum_answer())
            assert (await second.frame())[:4] == struct.pack(">i", 2)

    asyncio.run(main())


class Held:
    """Decodes when it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        monkeypatch.setattr(link, "decode", self.decode)

    def decode(self, *arguments: Any, **options: Any) -> Any:
        assert self.go_on.wait(30), "the loop stood still while a request was decoded"
        return decode(*arguments, **options)


def altered(*partitions: int) -> bytes:
    """A request of a broker about so many partitions of each topic."""
    schema = api_schema(ApiKey.ALTER_PARTITION, 3)
    isr = tuple(build(schema.request, "BrokerState", broker_id=n) for n in range(3))
    one = build(
        schema.request,
        "PartitionData",
        partition_index=0,
        leader_epoch=1,
        new_isr_with_epochs=isr,
        partition_epoch=1,
    )
    topics = tuple(
        build(schema.request, "TopicData", topic_id=None, partitions=(one,) * count)
        for count in partitions
    )
    return encode(build(schema.request, broker_id=1, topics=topics))


LARGE = altered(link.LARGE_BYTES // 30)


def request_of(body: bytes) -> bytes:
    return request_frame(api_schema(ApiKey.ALTER_PARTITION, 3), 1, b"me", body)


def test_a_large_request_is_decoded_beside_other_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def main() -> None:
        async with (
            serving() as (server, told),
            RawClient.to(server.port) as first,
            RawClient.to(server.port) as second,
        ):
            await first.send(request_of(LARGE) + describe_quorum(2))
            for number in range(5):  # answered without decoding
                await second.send(api_versions(0, number))
                assert (await second.frame())[:4] == struct.pack(">i", number)
            assert told.requests == []
            held.go_on.set()
            await until(lambda: told.requests)
            assert len(told.requests[0].body.topics[0].partitions) == link.LARGE_BYTES // 30
            told.requests[0].reply(b"")
            await until(lambda: len(told.requests) == 2)
            assert told.rejected == []

    asyncio.run(main())


def test_a_large_request_that_is_malformed_is_one_reason() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(request_of(LARGE[:-5]))
            await until(lambda: told.rejected)
            assert len(told.reasons) == 1
            assert told.requests == []

    asyncio.run(main())


def test_a_large_request_of_a_peer_that_has_left_is_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)

    async def main() -> None:
        async with serving() as (server, told):
            async with RawClient.to(server.port) as client:
                await client.send(request_of(LARGE))
                await client.send(api_versions(0)[:5])  # cut short by its end
            held.go_on.set()
            await until(lambda: told.rejected or not server.connections)
            assert told.requests == []

    asyncio.run(main())


def test_thousands_of_requests_in_one_write_are_answered_in_order() -> None:
    async def main() -> None:
        count = 3000
        async with serving(answer) as (server, _), RawClient.to(server.port) as client:
            await client.send(b"".join(describe_quorum(i) for i in range(count)))
            for i in range(count):
                assert (await client.frame())[:4] == struct.pack(">i", i)

    asyncio.run(main())


def test_only_the_first_reply_counts() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(1))
            await until(lambda: told.requests)
            told.requests[0].reply(b"one")
            told.requests[0].reply(b"two")
            told.requests[0].reject("too late")
            await client.send(describe_quorum(2))
            await until(lambda: len(told.requests) == 2)
            told.requests[1].reply(b"three")
            assert (await client.frame())[5:] == b"one"
            assert (await client.frame())[5:] == b"three"

    asyncio.run(main())


def test_a_reply_after_the_peer_left_does_nothing() -> None:
    async def main() -> None:
        async with serving() as (server, told):
            async with RawClient.to(server.port) as client:
                await client.send(describe_quorum(1))
                await until(lambda: told.requests)
            await until(lambda: told.gone)
            assert told.gone == [told.requests[0].connection]
            told.requests[0].reply(quorum_answer())
            told.requests[0].reply(quorum_answer())
            assert told.rejected == []
            assert server.connections == 0

    asyncio.run(main())


def test_a_reply_that_cannot_be_encoded_leaves_the_request_unanswered() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(1))
            await until(lambda: told.requests)
            payload = api_schema(55, 2).response
            bad = build(payload, error_code=None, error_message=None, topics=(), nodes=())
            with pytest.raises(LocalProtocolError, match="cannot encode"):
                told.requests[0].reply(bad)
            told.requests[0].reply(quorum_answer())
            assert (await client.frame())[:4] == struct.pack(">i", 1)

    asyncio.run(main())


def test_a_handler_may_close_the_connection() -> None:
    async def main() -> None:
        async with (
            serving(lambda request: request.reject("go away")) as (server, told),
            RawClient.to(server.port) as client,
        ):
            await client.send(describe_quorum(1))
            assert await client.closed()
            assert told.reasons == ["go away"]

    asyncio.run(main())


@pytest.mark.parametrize("large", [False, True])
def test_a_handler_that_fails_is_heard_of_and_closes_only_its_connection(large: bool) -> None:
    async def main() -> None:
        heard: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

        def broken(_request: InboundRequest) -> None:
            raise ZeroDivisionError

        async with serving(broken) as (server, told), RawClient.to(server.port) as client:
            await client.send(request_of(LARGE) if large else describe_quorum(1))
            assert await client.closed()
            await until(lambda: told.gone)
            assert [type(context["exception"]) for context in heard] == [ZeroDivisionError]
            assert told.rejected == []

    asyncio.run(main())


def test_bytes_behind_a_request_are_ignored_as_kafka_ignores_them() -> None:
    """librdkafka asks for all topics in 4 bytes and leaves 3 more behind them."""

    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            head = bytes.fromhex("0003000d00000003000772646b61666b6100")
            frame = head + bytes.fromhex("00000000" + "010000")
            await client.send(struct.pack(">i", len(frame)) + frame)
            await until(lambda: told.requests)
            body = told.requests[0].body
            assert (body.topics, body.allow_auto_topic_creation) == (None, False)
            assert told.rejected == []

    asyncio.run(main())


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -5), "frame length -5"),
        (struct.pack(">i", 1024 * 1024 + 1), "frame length 1048577"),
        (struct.pack(">i", 2**31 - 1), "frame length 2147483647"),
        (struct.pack(">i", 0), "no header"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame length 1195725856"),
        (struct.pack(">ihhih", 10, 4242, 0, 1, -1), "API 4242 is not served"),
        (struct.pack(">ihhih", 10, 55, 9, 1, -1), "version 9 of API 55"),
        (struct.pack(">ihhih", 10, 55, -1, 1, -1), "version -1 of API 55"),
        (struct.pack(">ihhih", 10, 18, -1, 1, -1), "version -1 of ApiVersions"),
        (struct.pack(">ihhih", 10, 18, 3, 1, -1), "no header"),
        (struct.pack(">ihhihb", 11, 55, 2, 1, -1, 0), "ends too early"),
        (struct.pack(">ihhihb", 18, 55, 2, 1, -1, 0) + b"\xff\xff\xff\xff\x0f\0\0", "31 bits"),
        (struct.pack(">ihhihb", 17, 55, 2, 1, -1, 0) + b"\xff\xff\xff\x7f\0\0", "announces"),
    ],
)
def test_each_bad_frame_closes_its_connection_for_one_reason(data: bytes, reason: str) -> None:
    async def main() -> None:
        async with (
            serving(answer) as (server, told),
            RawClient.to(server.port) as client,
            RawClient.to(server.port) as bystander,
        ):
            await client.send(data)
            assert await client.closed()
            assert len(told.rejected) == 1
            assert reason in told.reasons[0]
            await bystander.send(describe_quorum(3))
            assert (await bystander.frame())[:4] == struct.pack(">i", 3)
            assert len(told.rejected) == 1

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 3, 4, 5, 15])
def test_a_frame_cut_by_the_end_of_the_stream_is_one_reason(size: int) -> None:
    async def main() -> None:
        async with serving() as (server, told):
            async with RawClient.to(server.port) as client:
                await client.send(describe_quorum(1)[:size])
                client.finish()
                assert await client.closed()
            assert len(told.rejected) == 1
            assert f"{size if size < 4 else size - 4} of" in told.reasons[0]
            await until(lambda: told.gone)
            assert len(told.rejected) == 1

    asyncio.run(main())


def test_after_a_valid_request_frames_may_be_larger() -> None:
    async def main() -> None:
        limits = Limits(first_frame_bytes_max=100, frame_bytes_max=1000)
        async with serving(answer, limits) as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(1))
            await client.frame()
            await client.send(describe_quorum(2, b"x" * 500))
            assert (await client.frame())[:4] == struct.pack(">i", 2)
            await client.send(describe_quorum(3, b"x" * 1000))
            assert await client.closed()
            assert "0..1000" in told.reasons[0]

    asyncio.run(main())


# ------------------------------------------------------------------ bounds


def test_a_frame_that_drips_in_is_given_up() -> None:
    async def main() -> None:
        limits = Limits(frame_timeout_s=0.1)
        async with serving(answer, limits) as (server, told), RawClient.to(server.port) as client:
            frame = describe_quorum(1, b"x" * 2000)
            for byte in frame[:1000]:
                if told.rejected:
                    break
                await client.send(bytes((byte,)))
                await asyncio.sleep(0.005)
            assert told.reasons == ["timed out inside a frame"]

    asyncio.run(main())


def test_a_drip_after_a_request_is_given_up_too() -> None:
    async def main() -> None:
        limits = Limits(frame_timeout_s=0.05)
        async with serving(answer, limits) as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(1) + describe_quorum(2)[:9])
            await client.frame()
            assert await client.closed()
            assert told.reasons == ["timed out inside a frame"]

    asyncio.run(main())


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    async def main() -> None:
        limits = Limits(idle_timeout_s=0.05, frame_timeout_s=0.05)
        async with (
            serving(limits=limits) as (server, told),
            RawClient.to(server.port) as waiting,
            RawClient.to(server.port) as idle,
        ):
            await waiting.send(describe_quorum(1))
            assert await idle.closed()
            assert told.reasons == ["timed out idle"]
            await asyncio.sleep(0.1)
            told.requests[0].reply(b"at last")
            assert (await waiting.frame())[5:] == b"at last"

    asyncio.run(main())


def test_a_peer_that_does_not_read_is_given_no_more() -> None:
    async def main() -> None:
        limits = Limits(frame_timeout_s=0.2)
        replies = 0

        def flood(request: InboundRequest) -> None:
            nonlocal replies
            replies += 1
            request.reply(bytes(4 * 1024 * 1024))

        async with serving(flood, limits) as (server, told), RawClient.to(server.port) as client:
            await client.send(b"".join(describe_quorum(i) for i in range(20)))
            await until(lambda: told.rejected)
            assert told.reasons == ["timed out reading its replies"]
            assert replies < 20

    asyncio.run(main())


def test_what_is_read_ahead_is_bounded() -> None:
    async def main() -> None:
        limits = Limits(pipelined_bytes_max=50_000)
        async with serving(limits=limits) as (server, told), RawClient.to(server.port) as client:
            frames = b"".join(describe_quorum(i, b"x" * 1000) for i in range(20_000))
            sending = asyncio.ensure_future(client.send(frames))
            await until(lambda: server.buffered_bytes > 50_000)
            await asyncio.sleep(0.05)
            assert server.buffered_bytes < 50_000 + 64 * 1024
            assert len(told.requests) == 1
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        assert server.buffered_bytes == 0

    asyncio.run(main())


def test_reading_goes_on_after_a_pause() -> None:
    async def main() -> None:
        limits = Limits(pipelined_bytes_max=1000)
        count = 400
        async with serving(limits=limits) as (server, told), RawClient.to(server.port) as client:
            await client.send(b"".join(describe_quorum(i, b"x" * 1000) for i in range(count)))
            for i in range(count):
                await until(lambda i=i: len(told.requests) > i)  # type: ignore[misc]
                told.requests[i].reply(quorum_answer())
                assert (await client.frame())[:4] == struct.pack(">i", i)
            assert server.buffered_bytes == 0

    asyncio.run(main())


def test_partial_frames_of_all_connections_share_a_budget() -> None:
    async def main() -> None:
        limits = Limits(buffered_bytes_max=250_000)
        partial = struct.pack(">i", 200_000) + bytes(100_000)
        async with (
            serving(limits=limits) as (server, told),
            RawClient.to(server.port) as first,
            RawClient.to(server.port) as second,
            RawClient.to(server.port) as third,
        ):
            for client in (first, second):
                await client.send(partial)
            await until(lambda: server.buffered_bytes >= 200_000)
            assert told.rejected == []
            await third.send(partial)
            assert await third.closed()
            assert told.reasons == ["more than 250000 bytes wait in all connections"]
            assert server.buffered_bytes <= 250_000
            await first.send(bytes(45_000))
            await until(lambda: server.buffered_bytes >= 245_000)

    asyncio.run(main())


def test_one_connection_too_many_is_turned_away() -> None:
    async def main() -> None:
        async with serving(answer, Limits(connections_max=2)) as (server, told):
            async with RawClient.to(server.port) as first, RawClient.to(server.port):
                await until(lambda: server.connections == 2)
                async with RawClient.to(server.port) as third:
                    assert await third.closed()
                assert told.reasons == ["more than 2 connections"]
                await first.send(describe_quorum(1))
                await first.frame()
            await until(lambda: server.connections == 0)
            async with RawClient.to(server.port) as again:
                await again.send(describe_quorum(1))
                await again.frame()
            assert len(told.rejected) == 1

    asyncio.run(main())


# ------------------------------------------------------------------ lifecycle, roles


@pytest.mark.parametrize("turns", range(5))
def test_close_loses_nobody_who_is_being_accepted(turns: int) -> None:
    """A connection in any state of being accepted is closed: none is left to the collector."""

    async def main() -> None:
        async with serving() as (server, _):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            for _ in range(turns):
                await asyncio.sleep(0)
        with client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""

    asyncio.run(main())
    gc.collect()  # what was not closed is a warning, and so an error


def test_close_ends_every_connection_and_frees_the_port() -> None:
    async def main() -> None:
        async with serving() as (server, told), RawClient.to(server.port) as client:
            await client.send(describe_quorum(1))
            await until(lambda: told.requests)
            await server.close()
            assert await client.closed()
            assert told.gone == [told.requests[0].connection]
            assert told.rejected == []
            told.requests[0].reply(quorum_answer())
            await server.close()
            again = await asyncio.start_server(lambda *_: None, "127.0.0.1", server.port)
            again.close()
            await again.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("open_files", "connections"), [(1024, 512), (256, 128), (10**6, 4096), (-1, 4096)]
)
def test_half_of_the_open_files_may_be_connections(
    monkeypatch: pytest.MonkeyPatch, open_files: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (open_files, open_files))
    assert Limits.of_process().connections_max == connections


def test_a_broker_may_speak_of_more_than_a_client() -> None:
    """AlterPartition tells of everything that a broker leads, in one request."""

    async def main() -> None:
        limits = Limits(elements_max=100, broker_elements_max=202)
        async with serving(None, limits) as (server, told):
            for partitions in (50, 51):  # four elements each, and two topics
                async with RawClient.to(server.port) as client:
                    await client.send(request_of(altered(partitions, 0)))
                    await until(lambda: told.requests or told.rejected)
            assert len(told.requests) == 1
            await until(lambda: told.rejected)
            assert told.reasons == ["more than 202 elements in one message"]

    asyncio.run(main())


def test_listeners_serve_what_their_roles_serve() -> None:
    quorum = {ApiKey.FETCH, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}
    assert apis_of(["controller"]) == CONTROLLER_APIS
    assert apis_of(["broker"]) == BROKER_APIS
    assert apis_of({"broker", "controller"}) == {**BROKER_APIS, **CONTROLLER_APIS}
    assert quorum <= CONTROLLER_APIS.keys()
    assert not quorum & BROKER_APIS.keys()
    assert ApiKey.METADATA in BROKER_APIS
    assert ApiKey.METADATA not in CONTROLLER_APIS
    for table in (CONTROLLER_APIS, BROKER_APIS, ALL_APIS):
        assert list(table) == sorted(table)
        assert ApiKey.CREATE_TOPICS in table
    for roles in ([], ["voter"], ["controller", "x"]):
        with pytest.raises(ValueError, match="want controller, broker or both"):
            apis_of(roles)
