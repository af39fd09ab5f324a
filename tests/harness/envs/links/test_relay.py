"""The relay over real sockets: what passes, what is held, what comes after."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.envs.local.plugin import Local
from harness.errors import EnvError
from tests.support.live.cluster import echo_cluster, environment_of

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
QUIET_S = 0.15  # how long nothing must be heard for a link to count as silent


def test_requests_and_replies_pass_and_are_counted_per_link(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            stats = await env.net.stats()
            assert stats["n1", "n2"]["bytes"] == 5
            assert stats["n2", "n1"]["bytes"] == 5
            assert stats["n1", "n2"]["connections"] == 1
            assert stats["n2", "n1"]["connections"] == 0

    on_cluster(tmp_path, scenario)


def test_the_node_sees_the_advertised_address_of_its_peer(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        assert (await env.net.probe("n1", "n2")).passed
        peer = env.address("n1").host
        assert f"connection from {peer}" in env.log_file("n2").read_text()

    on_cluster(tmp_path, scenario)


STRANGE = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as link:
    while link.recv(1) if link.send(b"x") else False:
        time.sleep(0.01)
"""


def test_a_program_without_an_address_of_its_own_is_known_by_its_socket(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.signal("n3", signal.SIGKILL)
        there = env.address("n2")
        argv = [sys.executable, "-c", STRANGE, there.host, str(there.port)]
        await env.start("n3", argv, env={})
        await passes(env, "n3", "n2")
        await env.net.cut([("n3", "n2"), ("n2", "n3")])
        before = (await env.net.stats())["n3", "n2"]["bytes"]
        await asyncio.sleep(QUIET_S)
        assert (await env.net.stats())["n3", "n2"]["bytes"] == before
        await env.net.heal()
        await passes(env, "n3", "n2")

    on_cluster(tmp_path, scenario)


async def passes(env: Local, source: str, destination: str) -> None:
    """Wait until more bytes have gone over a link."""

    async def count() -> int:
        stats = await env.net.stats()
        return stats[source, destination]["bytes"] if (source, destination) in stats else 0

    before = await count()
    async with asyncio.timeout(10):
        while await count() <= before:  # noqa: ASYNC110 - the relay tells only when it is asked
            await asyncio.sleep(0.01)


def test_a_connection_of_nobody_is_other(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        there = env.address("n2")
        reader, writer = await asyncio.open_connection(there.host, there.port)
        await ping(reader, writer)
        assert (await env.net.stats())["other", "n2"]["connections"] == 1
        writer.close()

    on_cluster(tmp_path, scenario)


def test_a_cut_holds_requests_on_open_connections_and_a_heal_lets_them_flow(
    tmp_path: Path,
) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            await ping(reader, writer)
            await env.net.cut([("n1", "n2")])
            writer.write(b"held")
            await silent(reader)
            assert (await env.net.stats())["n1", "n2"]["held_bytes"] == 4
            await env.net.heal([("n1", "n2")])
            assert await soon(reader.readexactly(4)) == b"held"
            assert (await env.net.stats())["n1", "n2"]["held_bytes"] == 4, "counted once"

    on_cluster(tmp_path, scenario)


def test_the_same_cut_holds_replies_on_connections_opened_the_other_way(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n2", "n1") as (reader, writer):
            await ping(reader, writer)
            await env.net.cut([("n1", "n2")])
            before = (await env.net.stats())["n2", "n1"]["bytes"]
            writer.write(b"request")
            await silent(reader)
            stats = await env.net.stats()
            assert stats["n2", "n1"]["bytes"] == before + 7, "the request went through"
            assert stats["n1", "n2"]["held_bytes"] == 7, "its reply did not"
            await env.net.heal()
            assert await soon(reader.readexactly(7)) == b"request"

    on_cluster(tmp_path, scenario)


def test_other_links_do_not_notice(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.net.cut([("n1", "n2"), ("n2", "n1")])
        for pair in (("n1", "n3"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2"), ("client", "n1")):
            assert (await env.net.probe(*pair)).passed, pair

    on_cluster(tmp_path, scenario)


def test_a_connection_opened_over_a_cut_link_hears_nothing_until_the_heal(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.net.cut([("n1", "n2")])
        async with link(env, "n1", "n2") as (reader, writer):
            writer.write(b"early")
            await silent(reader)
            stats = (await env.net.stats())["n1", "n2"]
            assert (stats["blocked_connects"], stats["held_bytes"]) == (1, 5)
            await env.net.heal()
            assert await soon(reader.readexactly(5)) == b"early"

    on_cluster(tmp_path, scenario)


def test_the_end_of_a_stream_is_held_too(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            await ping(reader, writer)
            await env.net.cut([("n2", "n1")])
            await env.signal("n2", signal.SIGKILL)
            await silent(reader)  # n2 is dead, and n1 cannot know
            await env.net.heal()
            assert await soon(ends(reader))

    on_cluster(tmp_path, scenario)


def test_data_sent_before_a_close_arrives_after_the_heal(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            await ping(reader, writer)
            before = (await env.net.stats())["n2", "n1"]["bytes"]
            await env.net.cut([("n1", "n2")])
            writer.write(b"last words")
            writer.write_eof()
            await silent(reader)
            await env.net.heal()
            assert await soon(reader.read()) == b"last words"
            assert (await env.net.stats())["n2", "n1"]["bytes"] == before + 10

    on_cluster(tmp_path, scenario)


def test_a_refused_port_is_a_prompt_reset(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.signal("n2", signal.SIGKILL)
        probe = await env.net.probe("n1", "n2", timeout_s=5)
        assert not probe.passed
        assert probe.elapsed_ms < 1000
        assert "no answer" not in probe.detail

    on_cluster(tmp_path, scenario)


def test_a_refusal_does_not_cross_a_cut_link(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.signal("n2", signal.SIGKILL)
        await env.net.cut([("n2", "n1")])
        async with link(env, "n1", "n2") as (reader, _):
            await silent(reader)
            await env.net.heal()
            assert await soon(ends(reader))

    on_cluster(tmp_path, scenario)


def test_connections_given_up_during_a_cut_are_dropped_and_still_counted(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.net.cut([("n1", "n2")])
        for _ in range(5):
            async with link(env, "n1", "n2") as (_, writer):
                writer.write(b"0123456789")
                await writer.drain()
        async with asyncio.timeout(10):
            while (await env.net.stats())["n1", "n2"]["blocked"]:
                pass
        stats = (await env.net.stats())["n1", "n2"]
        assert (stats["blocked_connects"], stats["held_bytes"]) == (5, 50)
        await env.net.heal()
        assert (await env.net.probe("n1", "n2")).passed

    on_cluster(tmp_path, scenario)


def test_a_reader_that_does_not_read_pushes_back_on_the_sender(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            await env.signal("n2", signal.SIGSTOP)
            memory_before = resident_kib(env)
            payload = bytes(range(256)) * 4096 * 40  # 40 MiB: more than the kernel's buffers take
            writer.write(payload)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writer.drain(), 0.5)
            assert resident_kib(env) - memory_before < 4096
            await env.signal("n2", signal.SIGCONT)
            assert await soon(reader.readexactly(len(payload)), 30) == payload

    on_cluster(tmp_path, scenario)


def test_a_cut_in_mid_stream_loses_and_repeats_no_byte(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        async with link(env, "n1", "n2") as (reader, writer):
            payload = b"".join(i.to_bytes(4, "big") for i in range(500_000))
            reading = asyncio.create_task(reader.readexactly(len(payload)))
            for at in range(0, len(payload), 200_000):
                writer.write(payload[at : at + 200_000])
                await env.net.cut([("n1", "n2")] if at % 400_000 else [("n2", "n1")])
                await env.net.heal()
            assert await soon(reading, 30) == payload

    on_cluster(tmp_path, scenario)


def test_probes_fail_both_ways_over_a_one_way_cut_and_say_so(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        await env.net.cut([("n1", "n2")])
        there, back = await asyncio.gather(
            env.net.probe("n1", "n2", timeout_s=QUIET_S),
            env.net.probe("n2", "n1", timeout_s=QUIET_S),
        )
        assert not there.passed
        assert not back.passed
        assert there.detail == back.detail == f"no answer within {QUIET_S:g} s"
        assert env.net.cuts() == {("n1", "n2")}
        await env.net.heal()
        assert env.net.cuts() == frozenset()
        assert (await env.net.probe("n1", "n2")).passed
        assert (await env.net.probe("n2", "n1")).passed

    on_cluster(tmp_path, scenario)


def test_unknown_nodes_are_refused_by_name(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        for bad in (env.net.cut([("n1", "n9")]), env.net.heal([("n9", "n1")])):
            with pytest.raises(EnvError, match="no node is called 'n9'; there are: n1, n2, n3"):
                await bad
        with pytest.raises(EnvError, match="'client': the node has no address that it listens on"):
            await env.net.probe("n1", "client")

    on_cluster(tmp_path, scenario)


def test_a_taken_address_is_an_error_that_names_it(tmp_path: Path) -> None:
    commands = [
        {"id": 1, "do": "listen", "with": {"node": "n1", "listen": ["203.0.113.7", 1],
                                           "target": ["127.0.0.1", 1]}},
        {"id": 2, "do": "bye"},
    ]  # fmt: skip
    answers = relay_answers(commands, tmp_path)
    assert "203.0.113.7" in answers[0]["error"]
    assert answers[1] == {"id": 2, "result": None}


def test_the_relay_ends_when_its_input_does(tmp_path: Path) -> None:
    assert relay_answers([{"id": 1, "do": "stats"}], tmp_path) == [{"id": 1, "result": []}]


def test_a_dead_relay_is_an_error_with_its_log(tmp_path: Path) -> None:
    async def scenario(env: Local) -> None:
        relay_of(env).kill()
        await relay_of(env).wait()
        with pytest.raises(EnvError, match=r"relay.*relay\.log"):
            await env.net.cut([("n1", "n2")])

    on_cluster(tmp_path, scenario)


# --------------------------------------------------------------------------- helpers


def on_cluster(folder: Path, scenario: Callable[[Local], Awaitable[None]]) -> None:
    async def main() -> None:
        async with echo_cluster(folder) as cluster:
            await scenario(environment_of(cluster))

    asyncio.run(main())


@contextlib.asynccontextmanager
async def link(env: Local, source: str, destination: str) -> AsyncIterator[Streams]:
    """A connection as ``source`` would open it to ``destination``."""
    address = env.address(destination)
    reader, writer = await asyncio.open_connection(
        address.host, address.port, local_addr=(env.bind_address(source).host, 0)
    )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"ping")
    assert await soon(reader.readexactly(4)) == b"ping"


async def silent(reader: asyncio.StreamReader) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), QUIET_S)


async def soon(awaitable: Awaitable[T], timeout_s: float = 5) -> T:
    return await asyncio.wait_for(awaitable, timeout_s)


async def ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


def relay_of(env: Local) -> asyncio.subprocess.Process:
    process = env._relay._process
    assert process is not None
    return process


def resident_kib(env: Local) -> int:
    status = Path(f"/proc/{relay_of(env).pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def relay_answers(commands: list[dict[str, object]], state: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "harness.envs.links.relay"],
        input="".join(json.dumps(c) + "\n" for c in commands),
        env={"KRUCIBLE_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
