"""Thousands of malformed frames at a real server: it serves on, and its memory does not grow.

Each hostile connection sends one thing and then says that it will send no more. What must follow:
the server closes it, with exactly one reason if the bytes were no valid request, and with no
reason if the mutation happened to leave one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import struct
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from node.wire.api import ALL_APIS
from node.wire.payloads import ApiSchema
from node.wire.server import InboundRequest, Limits, Server
from node.wire.shape import varint
from tests.support.wire.entities import every_schema, random_request
from tests.support.wire.server import (
    RawClient,
    Told,
    describe_quorum,
    quorum_answer,
    serving,
    until,
)

SCHEMAS = list(every_schema())
ROUNDS = 3000
TRACED_ROUNDS = 400
BATCH = 50  # hostile connections at a time
HELD_BYTES_MAX = 1024 * 1024
GROWTH_KIB_MAX = 64 * 1024
HUGE_INTS = (2**31 - 1, -(2**31), -1, -2, 2**30, 2**24, 65_536)
HUGE_VARINTS = (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80" * 12, varint(2**30))

Mutation = Callable[[bytes, Random], bytes]


def relength(frame: bytes) -> bytes:
    """The same with a length that fits: what is wrong must then be found inside."""
    return struct.pack(">i", len(frame) - 4) + frame[4:]


def flip_bits(frame: bytes, rng: Random) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def insert_bytes(frame: bytes, rng: Random) -> bytes:
    at = rng.randrange(4, len(frame) + 1)
    return relength(frame[:at] + rng.randbytes(rng.randint(1, 20)) + frame[at:])


def delete_bytes(frame: bytes, rng: Random) -> bytes:
    at = rng.randrange(4, len(frame))
    return relength(frame[:at] + frame[at + rng.randint(1, 20) :])


def cut(frame: bytes, rng: Random) -> bytes:
    return frame[: rng.randrange(1, len(frame))]


def huge_int(frame: bytes, rng: Random) -> bytes:
    at = rng.randrange(4, len(frame))
    return relength(frame[:at] + struct.pack(">i", rng.choice(HUGE_INTS)) + frame[at + 4 :])


def huge_varint(frame: bytes, rng: Random) -> bytes:
    at = rng.randrange(12, len(frame))
    return relength(frame[:at] + rng.choice(HUGE_VARINTS) + frame[at + 1 :])


def huge_length(frame: bytes, rng: Random) -> bytes:
    return struct.pack(">i", rng.choice(HUGE_INTS)) + frame[4:]


def trailing(frame: bytes, rng: Random) -> bytes:
    return relength(frame + rng.randbytes(rng.randint(1, 50)))


def other_api(frame: bytes, rng: Random) -> bytes:
    return frame[:4] + struct.pack(">hh", rng.randint(-3, 100), rng.randint(-3, 30)) + frame[8:]


def random_frame(_frame: bytes, rng: Random) -> bytes:
    return relength(bytes(4) + rng.randbytes(rng.randint(0, 400)))


def random_body(frame: bytes, rng: Random) -> bytes:
    return relength(frame[:14] + rng.randbytes(rng.randint(0, 200)))


def random_bytes(_frame: bytes, rng: Random) -> bytes:
    return rng.randbytes(rng.randint(1, 200))


def many_elements(_frame: bytes, rng: Random) -> bytes:
    """A DeleteTopics v6 of topics as small as they get."""
    count = rng.choice([10_001, 40_000])
    head = struct.pack(">hhihb", 20, 6, 1, -1, 0)
    topics = varint(count + 1) + (b"\x00" + bytes(16) + b"\x00") * count
    return relength(bytes(4) + head + topics + bytes(5))


def many_tags(frame: bytes, rng: Random) -> bytes:
    count = rng.choice([200, 50_000])
    return relength(frame[:-1] + varint(count) + b"\x63\x00" * count)


MUTATIONS: list[Mutation] = [
    flip_bits,
    insert_bytes,
    delete_bytes,
    cut,
    huge_int,
    huge_varint,
    huge_length,
    trailing,
    other_api,
    random_frame,
    random_body,
    random_bytes,
]
RARE: list[Mutation] = [many_elements, many_tags]


def hostile(rng: Random) -> bytes:
    schema: ApiSchema = rng.choice(SCHEMAS)
    frame = random_request(schema, rng)
    mutation = rng.choice(RARE if rng.random() < 0.02 else MUTATIONS)
    data = mutation(frame, rng)
    if rng.random() < 0.2:  # after a good beginning
        data = describe_quorum(1) + data
    return data


async def throw(server: Server, data: bytes) -> bytes:
    """Send it and wait until the server closes; what came back until then."""
    async with RawClient.to(server.port) as client:
        with contextlib.suppress(ConnectionError):
            await client.send(data)
            client.finish()
        return await client.drained()


async def throw_many(server: Server, told: Told, rng: Random, count: int) -> None:
    for start in range(0, count, BATCH):
        await asyncio.gather(
            *(throw(server, hostile(rng)) for _ in range(min(BATCH, count - start)))
        )
        await until(lambda: server.connections == 1)  # the bystander
        peers = [peer for peer, _ in told.rejected]
        assert len(set(peers)) == len(peers), "two reasons for one connection"
        assert all(told.reasons)
        told.rejected.clear()
        told.gone.clear()


async def still_serves(client: RawClient, correlation: int) -> None:
    await client.send(describe_quorum(correlation))
    assert (await client.frame())[:4] == struct.pack(">i", correlation)


def peak_rss_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_malformed_frames_close_their_connection_and_nothing_else() -> None:
    async def main() -> None:
        rng = Random(20_595)
        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

        def answer(request: InboundRequest) -> None:
            assert request.api_key in ALL_APIS
            request.reply(quorum_answer())

        limits = Limits(frame_timeout_s=5, connections_max=BATCH + 5)
        async with serving(answer, limits) as (server, told), RawClient.to(server.port) as client:
            peak_before = peak_rss_kib()
            await throw_many(server, told, rng, ROUNDS)
            assert peak_rss_kib() - peak_before < GROWTH_KIB_MAX
            await still_serves(client, 1)
            gc.collect()
            tracemalloc.start()
            try:
                await throw_many(server, told, rng, TRACED_ROUNDS)
                gc.collect()
                held = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert held < HELD_BYTES_MAX
            await still_serves(client, 2)
            assert server.buffered_bytes == 0
            assert heard == []

    asyncio.run(main())


@pytest.mark.parametrize("mutation", [*MUTATIONS, *RARE], ids=lambda m: m.__name__)
def test_each_mutation_is_met_with_a_reason(mutation: Mutation) -> None:
    """No kind of malformed input slips through as a rule."""

    async def main() -> None:
        rng = Random(mutation.__name__)
        async with serving(lambda request: request.reply(quorum_answer())) as (server, told):
            answered = 0
            for _ in range(30):
                frame = random_request(rng.choice(SCHEMAS), rng)
                answered += bool(await throw(server, mutation(frame, rng)))
            await until(lambda: server.connections == 0)
            await until(lambda: len(told.rejected) + answered >= 30)
            peers = [peer for peer, _ in told.rejected]
            assert len(set(peers)) == len(peers)
            assert len(peers) + answered == 30
            assert answered < 30 or mutation is trailing, "as Kafka, we ignore what is behind"
            if mutation in (cut, huge_length, random_bytes, many_elements):
                assert answered == 0

    asyncio.run(main())


def test_valid_requests_of_every_version_are_never_rejected() -> None:
    async def main() -> None:
        rng = Random(1)
        handled = 0

        def answer(request: InboundRequest) -> None:
            nonlocal handled
            handled += 1
            request.reply(b"")

        async with serving(answer) as (server, told), RawClient.to(server.port) as client:
            sent = 0
            for schema in SCHEMAS:
                for _ in range(5):
                    await client.send(random_request(schema, rng))
                    await client.frame()
                    sent += schema.key != 18
            assert told.rejected == []
            assert handled == sent

    asyncio.run(main())
