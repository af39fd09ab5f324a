"""Ten thousand malformed frames at a real node: it serves on, forgets them, and says why."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from node.wire.api import CONTROLLER_APIS, ApiKey
from node.wire.connection import Connection
from tests.support.nodes.driver import NO_TIMEOUT, Client, in_loop, part
from tests.support.nodes.process import NodeProcess, node_process
from tests.support.wire.entities import every_schema, random_request

pytestmark = pytest.mark.slow

FRAMES = 10_000
WARM_UP = 600
IN_PARALLEL = 48
RSS_GROWTH_BYTES_MAX = 10 << 20
ANSWER_S = 0.2  # how long a reply is waited for before the connection is closed from our side

SCHEMAS = list(every_schema(CONTROLLER_APIS))
HEAD_BYTES = 14  # length, api key, version, correlation, client id length


@dataclass(frozen=True)
class Shot:
    """Bytes for one connection; ``bad``: they cannot be taken for anything but an error."""

    data: bytes
    bad: bool


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def random_bytes(rng: Random) -> Shot:
    return Shot(framed(rng.randbytes(rng.randrange(1, 300))), bad=True)


def unframed(rng: Random) -> Shot:
    """Bytes of another protocol: the first four are no length of ours."""
    return Shot(
        rng.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\xff" * 64]), True
    )


def absurd_length(rng: Random) -> Shot:
    length = rng.choice([-(2**31), -1, 2**31 - 1, 200 << 20, rng.randrange(128 << 20, 2**31)])
    return Shot(length.to_bytes(4, "big", signed=True) + rng.randbytes(rng.randrange(40)), True)


def cut(rng: Random) -> Shot:
    frame = random_request(rng.choice(SCHEMAS), rng)
    return Shot(frame[: rng.randrange(1, len(frame))], bad=True)


def mutated(rng: Random) -> Shot:
    frame = bytearray(random_request(rng.choice(SCHEMAS), rng))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(4, len(frame))
        gone = rng.choice([0, 1, rng.randrange(9)])
        frame[at : at + gone] = rng.randbytes(rng.choice([0, 1, rng.randrange(9)]))
        if len(frame) <= HEAD_BYTES:
            break
    return Shot(framed(bytes(frame[4:])), bad=False)


def absurd_count(rng: Random) -> Shot:
    """A count or a length of about two thousand million, fixed or varint, somewhere inside."""
    frame = bytearray(random_request(rng.choice(SCHEMAS), rng))
    count = rng.choice([b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f"])
    at = rng.randrange(min(HEAD_BYTES, len(frame)), len(frame) + 1)
    frame[at : at + rng.choice([0, len(count)])] = count
    return Shot(framed(bytes(frame[4:])), bad=False)


def absurd_values(rng: Random) -> Shot:
    """Well formed, and nonsense: it gets past the codec."""
    return Shot(random_request(rng.choice(SCHEMAS), rng), bad=False)


def strange_header(rng: Random) -> Shot:
    """An API or a version that is not served."""
    frame = bytearray(random_request(rng.choice(SCHEMAS), rng))
    frame[4:6] = rng.choice([999, -1, 4, 7]).to_bytes(2, "big", signed=True)
    return Shot(bytes(frame), bad=True)


KINDS: tuple[Callable[[Random], Shot], ...] = (
    random_bytes,
    unframed,
    absurd_length,
    cut,
    mutated,
    mutated,
    absurd_count,
    absurd_count,
    strange_header,
    absurd_values,
)


@dataclass(frozen=True)
class Hit:
    """What became of a shot: our address, and whether the node closed before we did."""

    shot: Shot
    source: str
    closed_by_node: bool


async def fire(node: NodeProcess, number: int, shot: Shot) -> Hit:
    """Send it on a connection of its own, and wait until that is closed."""
    host = f"127.78.{number // 250}.{1 + number % 250}"  # never twice, as a port would be
    reader, writer = await asyncio.open_connection(
        node.endpoint.host, node.endpoint.port, local_addr=(host, 0)
    )
    name = writer.get_extra_info("sockname")
    closed_by_node = False
    try:
        writer.write(shot.data)
        if not shot.bad:
            try:
                async with asyncio.timeout(ANSWER_S):
                    closed_by_node = await reader.read(1) == b""
            except TimeoutError:
                pass  # it waits for the rest of a frame, or holds the reply back
        writer.write_eof()
        await reader.read()
    except ConnectionError:
        closed_by_node = True
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            closed_by_node = True
    return Hit(shot, f"{name[0]}:{name[1]}", closed_by_node)


async def fire_all(node: NodeProcess, rng: Random, numbers: range) -> list[Hit]:
    """Fire shots of all kinds, some at a time."""
    shots = iter([(i, KINDS[i % len(KINDS)](rng)) for i in numbers])
    hits: list[Hit] = []

    async def gun() -> None:
        for number, shot in shots:
            hits.append(await fire(node, number, shot))

    await asyncio.gather(*(gun() for _ in range(IN_PARALLEL)))
    return hits


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def reasons(node: NodeProcess) -> Counter[str]:
    """How many lines the node printed about each connection that it closed."""
    return Counter(re.findall(r" closed the connection of (\S+:\d+): \S", node.log))


async def assert_serves(node: NodeProcess) -> None:
    """A write is committed, if need be after the election that a forged request brought about."""
    connection = await Connection.open(node.endpoint)
    topic = part(
        ApiKey.CREATE_TOPICS,
        7,
        "CreatableTopic",
        name="still-there",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    try:
        async with asyncio.timeout(10):
            while True:
                answer = await Client(connection).ask(
                    ApiKey.CREATE_TOPICS,
                    7,
                    topics=(topic,),
                    timeout=NO_TIMEOUT,
                    validate_only=False,
                )
                if int(answer.topics[0].error_code) == 0:
                    return
    finally:
        connection.close()
        await connection.wait_closed()


@in_loop
async def test_malformed_frames_do_no_harm(tmp_path: Path) -> None:
    async with node_process(tmp_path) as node:
        await node.start()
        rng = Random(20_261)
        hits = await fire_all(node, rng, range(WARM_UP))
        before = rss_bytes(node.pid)
        hits += await fire_all(node, rng, range(WARM_UP, WARM_UP + FRAMES))
        await assert_serves(node)
        grown = rss_bytes(node.pid) - before
        assert grown < RSS_GROWTH_BYTES_MAX, f"{grown / (1 << 20):.1f} MB"
        told = reasons(node)
        assert max(told.values()) == 1
        assert set(told) <= {hit.source for hit in hits}
        silent = [h for h in hits if (h.shot.bad or h.closed_by_node) and h.source not in told]
        assert silent == []
        assert len(told) > FRAMES // 2
        assert "Traceback" not in node.log
        assert "CRITICAL" not in node.log
