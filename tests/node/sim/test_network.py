"""The simulated network: what connections do when links, processes and hosts fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from node.core.messages import Error, Request, Response, VoteRequest, VoteResponse
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey
from node.sim.fabric import MS, RETRANSMIT_NS, Fabric, Flow, Link
from node.sim.loop import VirtualLoop
from node.sim.network import VirtualConnection, VirtualInbound, VirtualListener, VirtualNetwork
from node.sim.process import VirtualProcess
from node.wire.api import CONTROLLER_APIS, ApiKey
from node.wire.api_versions import Features
from node.wire.errors import ConnectFailed, Disconnected, LocalProtocolError, RequestTimedOut
from node.wire.network import QuorumCaller
from node.wire.payloads import api_schema, encode
from node.wire.structs import NO_THROTTLE, build

SERVER = Endpoint("10.0.0.1", 9093)
CLIENT = "10.0.0.2"
SCHEMA = api_schema(ApiKey.DESCRIBE_CLUSTER, 1)
QUESTION = build(SCHEMA.request, include_cluster_authorized_operations=False)
VOTE = VoteRequest(ReplicaKey(2, None), 1, OffsetAndEpoch(0, 0), pre_vote=False)
ANSWER = build(
    SCHEMA.response,
    error_code=ErrorCode.none,
    error_message=None,
    throttle_time=NO_THROTTLE,
    cluster_id="c",
    controller_id=7,
    brokers=(),
)


class World:
    """A server process, and a client outside of all processes."""

    def __init__(self, link: Callable[[], Link] = lambda: Link(MS, 0)) -> None:
        self.loop = VirtualLoop()
        self.fabric = Fabric(self.loop, Random(1), link)
        self.process = VirtualProcess(self.loop, "server")
        self.network = VirtualNetwork(self.fabric, SERVER.host)
        self.client = VirtualNetwork(self.fabric, CLIENT)
        self.seen: list[VirtualInbound] = []
        self.asked: list[Any] = []
        self.rejected: list[str] = []
        self.mute = False
        self.process.do(self._listen)

    def _listen(self) -> None:
        self.listener: VirtualListener = self.network.listen(
            SERVER,
            self._handle,
            ask=self._ask,
            apis=CONTROLLER_APIS,
            on_reject=lambda _, reason: self.rejected.append(reason),
            tls=None,
            features=lambda: Features({"kraft.version": (0, 1)}, {}, -1),
        )
        asyncio.get_running_loop().create_task(self.listener.start())

    def _handle(self, request: VirtualInbound) -> None:
        self.seen.append(request)
        if not self.mute:
            request.reply(ANSWER)

    def _ask(self, connection: int, message: Any, reply: Callable[..., None]) -> None:
        self.asked.append((connection, message))
        if not self.mute:
            reply(VoteResponse(Error.NONE, 1, None, granted=True), b"")

    async def connect(self, timeout_s: float = 1.0) -> VirtualConnection:
        await asyncio.sleep(0)
        return await self.client.connect(SERVER, timeout_s=timeout_s)

    def run(self, main: Any) -> Any:
        try:
            return self.loop.run_until_complete(main)
        finally:
            self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.loop.close()


def test_a_request_and_its_answer_take_two_ways(world: World) -> None:
    async def main() -> Any:
        connection = await world.connect()
        assert world.loop.now_ns == 2 * MS
        answer: Any = await connection.request(QUESTION, 1.0)
        assert world.loop.now_ns == 4 * MS
        assert connection.is_open
        assert not connection.is_busy
        return answer.controller_id

    assert world.run(main()) == 7
    assert world.seen[0].peer == (CLIENT, 1)
    assert world.seen[0].body == QUESTION


def test_versions_are_those_of_the_listener(world: World) -> None:
    async def main() -> int:
        connection = await world.connect()
        negotiated = await connection.negotiate(1.0)
        assert connection.negotiated is negotiated
        return negotiated.version(ApiKey.DESCRIBE_CLUSTER)

    assert world.run(main()) == CONTROLLER_APIS[ApiKey.DESCRIBE_CLUSTER].max_version


async def _ask(connection: QuorumCaller, request: Request) -> Response:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.send(request, 1.0, answer.set_result)
    outcome = await answer
    assert not isinstance(outcome, Exception)
    return cast("Response", outcome)


def test_a_replica_asks_in_the_terms_of_the_core(world: World) -> None:
    async def main() -> Any:
        await asyncio.sleep(0)
        connection = await world.client.connect_to_replica(
            SERVER, lambda _: (), timeout_s=1.0, tls=None, listener_name="CONTROLLER"
        )
        return await _ask(connection, VOTE)

    assert world.run(main()).granted
    assert world.asked == [(1, VOTE)]


def test_who_is_killed_hears_no_answer(world: World) -> None:
    """Not even that its connections are gone: what it would do then, it would do dead."""
    heard: list[Any] = []

    async def main() -> None:
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        process = VirtualProcess(loop, "asks")
        opened: list[QuorumCaller] = []

        async def ask() -> None:
            opened.append(
                await world.client.connect_to_replica(
                    SERVER, lambda _: (), timeout_s=1.0, tls=None, listener_name="CONTROLLER"
                )
            )
            opened[0].send(VOTE, 1.0, heard.append)

        process.do(lambda: asyncio.create_task(ask()))
        await asyncio.sleep(0.0025)  # two ways to open the connection, half of one to ask
        process.kill()
        opened[0].close()
        await asyncio.sleep(1)

    world.run(main())
    assert heard == []


def test_what_is_not_served_ends_the_connection(world: World) -> None:
    async def main() -> None:
        connection = await world.connect()
        world.listener.apis = {}
        with pytest.raises(Disconnected, match="closed by the peer"):
            await connection.request(QUESTION, 1.0)
        assert not connection.is_open

    world.run(main())
    assert world.rejected == [f"version 1 of API {int(ApiKey.DESCRIBE_CLUSTER)} is not served here"]


def test_nobody_listens_and_nobody_hears(world: World) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        with pytest.raises(ConnectFailed, match="refused"):
            await world.client.connect(Endpoint(SERVER.host, 1))
        world.fabric.cut(CLIENT, SERVER.host)
        with pytest.raises(ConnectFailed, match="no answer in"):
            await world.connect()
        world.fabric.heal(CLIENT, SERVER.host)
        await asyncio.sleep(1)
        assert not world.listener.links, "what came of the late connection is closed"

    world.run(main())


def test_a_slow_answer_ends_the_connection_and_is_forgotten(world: World) -> None:
    world.mute = True

    async def main() -> None:
        connection = await world.connect()
        with pytest.raises(RequestTimedOut):
            await connection.request(QUESTION, 0.5)
        assert not connection.is_open
        await asyncio.sleep(1)
        assert not world.listener.links
        world.seen[0].reply(ANSWER)
        world.seen[0].reply(ANSWER)
        await asyncio.sleep(1)
        with pytest.raises(Disconnected, match="is closed"):
            await connection.request(QUESTION, 0.5)

    world.run(main())


def test_one_request_at_a_time(world: World) -> None:
    world.mute = True

    async def main() -> None:
        connection = await world.connect()
        first = asyncio.ensure_future(connection.request(QUESTION, 5))
        await asyncio.sleep(0.1)
        assert connection.is_busy
        with pytest.raises(LocalProtocolError, match="still in flight"):
            await connection.request(QUESTION, 5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not connection.is_open

    world.run(main())


def test_a_cut_link_holds_back_and_a_healed_one_delivers_in_order(world: World) -> None:
    async def main() -> None:
        connection = await world.connect()
        world.fabric.cut(SERVER.host, CLIENT)
        answer = asyncio.ensure_future(connection.request(QUESTION, 5))
        await asyncio.sleep(1)
        assert len(world.seen) == 1
        assert not answer.done()
        world.fabric.heal(SERVER.host, CLIENT)
        await answer
        assert world.loop.time() == pytest.approx(1.003)

    world.run(main())


def test_a_request_of_a_connection_given_up_still_arrives(world: World) -> None:
    async def main() -> None:
        connection = await world.connect()
        world.fabric.cut(CLIENT, SERVER.host)
        with pytest.raises(RequestTimedOut):
            await connection.request(QUESTION, 0.5)
        world.fabric.heal(CLIENT, SERVER.host)
        await asyncio.sleep(1)
        assert len(world.seen) == 1

    world.run(main())


def test_the_kernel_of_a_stopped_process_takes_connections_but_nobody_answers(
    world: World,
) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        world.process.stop()
        connection = await world.connect()
        with pytest.raises(RequestTimedOut):
            await connection.request(QUESTION, 0.5)
        other = await world.connect()
        answer = asyncio.ensure_future(other.request(QUESTION, 5))
        await asyncio.sleep(1)
        world.process.resume()
        await answer
        assert len(world.seen) == 2

    world.run(main())


def test_the_host_of_a_dead_process_says_so(world: World) -> None:
    async def main() -> None:
        connection = await world.connect()
        world.mute = True
        answer = asyncio.ensure_future(connection.request(QUESTION, 5))
        await asyncio.sleep(0.1)
        world.process.kill()
        world.network.gone()
        with pytest.raises(Disconnected, match="by the peer"):
            await answer
        assert world.loop.time() == pytest.approx(0.103)
        with pytest.raises(ConnectFailed, match="refused"):
            await world.connect()

    world.run(main())


def test_a_dead_callers_connections_are_closed_at_the_other_end(world: World) -> None:
    async def main() -> None:
        await world.connect()
        assert len(world.listener.links) == 1
        world.client.gone()
        await asyncio.sleep(0.1)
        assert not world.listener.links

    world.run(main())


def test_a_port_is_taken_once(world: World) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        with pytest.raises(OSError, match="in use"):
            await world.listener.start()
        await world.listener.close()
        await world.listener.close()
        await world.listener.start()

    world.run(main())


def test_a_flow_keeps_its_order_whatever_the_link_draws(world: World) -> None:
    link = world.fabric.link("a", "b")
    link.jitter_ns, link.loss = 100 * MS, 0.3
    flow, seen = Flow("a", "b"), list[int]()

    async def main() -> None:
        for number in range(200):
            world.fabric.carry(flow, Context(), seen.append, number)
            await asyncio.sleep(0.001)
        await asyncio.sleep(60)

    world.run(main())
    assert seen == list(range(200))
    assert link.passed == 200


def test_a_lost_packet_comes_late() -> None:
    link = Link(MS, 0, loss=0.5)
    drawn = [link.draw_ns(MS * at) for at in range(400)]
    assert {MS, MS + RETRANSMIT_NS, MS + 3 * RETRANSMIT_NS} <= set(drawn)
    assert 150 < drawn.count(MS) < 250


def test_latencies_are_spread_evenly() -> None:
    link = Link(MS, 100)
    drawn = [link.draw_ns(at) - MS for at in range(0, 300 * MS, MS // 10)]
    assert set(drawn) == set(range(100))
    assert max(map(drawn.count, set(drawn))) < 60


def test_what_a_link_draws_is_of_the_moment_and_not_of_what_was_before() -> None:
    def luck_of(moments: list[int], destination: str = "b", seed: int = 1) -> list[int]:
        link = Fabric(VirtualLoop(), Random(seed)).link("a", destination)
        return [link.draw_ns(at) for at in moments]

    whole, less = luck_of([MS, 2 * MS, 7 * MS, 7 * MS + 5]), luck_of([7 * MS + 2, 7 * MS + 9])
    assert less == whole[2:]
    assert less[0] != less[1], "one after the other within a moment"
    assert luck_of([7 * MS], "c") != luck_of([7 * MS]) != luck_of([7 * MS], seed=2)


# --------------------------------------------------------------------------- encoded requests


def ask_bytes(world: World) -> list[Any]:
    """Send the question as bytes; gives what came of it."""
    found: list[Any] = []

    async def main() -> None:
        connection = await world.client.connect(SERVER)
        connection.send_bytes(SCHEMA.key, SCHEMA.version, encode(QUESTION), 1.0, found.append)
        with pytest.raises(LocalProtocolError, match="in flight"):
            connection.send_bytes(SCHEMA.key, SCHEMA.version, b"", 1.0, found.append)
        await asyncio.sleep(0.1)

    world.run(main())
    return found


def test_an_encoded_request_is_decoded_for_who_wants_it_so(world: World) -> None:
    assert ask_bytes(world) == [encode(ANSWER)]
    assert [each.body for each in world.seen] == [QUESTION]


def test_an_encoded_request_goes_as_it_is_to_who_reads_bytes(world: World) -> None:
    seen = []

    def raw(key: int, version: int, body: bytes, answer: Callable[[bytes], None]) -> None:
        seen.append((key, version, body))
        answer(b"so it is")

    world.loop.run_until_complete(asyncio.sleep(0))
    world.listener.raw = raw
    assert ask_bytes(world) == [b"so it is"]
    assert seen == [(SCHEMA.key, SCHEMA.version, encode(QUESTION))]
    assert not world.seen


def test_who_sent_bytes_hears_that_the_connection_broke(world: World) -> None:
    world.mute = True
    found: list[Any] = []

    async def main() -> None:
        connection = await world.client.connect(SERVER)
        connection.send_bytes(SCHEMA.key, SCHEMA.version, encode(QUESTION), 0.5, found.append)
        await asyncio.sleep(1)

    world.run(main())
    assert [type(each) for each in found] == [RequestTimedOut]


# ---------------------------------------------------------------- requests that nobody answers


@pytest.fixture
def told(world: World) -> list[Any]:
    """Collects the events that the server's door tells."""
    told: list[Any] = []
    world.network.door.tell = lambda kind, fields: told.append((kind, dict(fields)))
    return told


async def _give_up(world: World, timeout_s: float) -> None:
    """Ask what the mute server does not answer, until the client gives up."""
    connection = await world.connect()
    world.mute = True
    with pytest.raises(RequestTimedOut):
        await connection.request(QUESTION, timeout_s)


async def _answered(world: World) -> None:
    """Ask on another connection, and be answered."""
    connection = await world.connect()
    world.mute = False
    await connection.request(QUESTION, 1.0)


def test_a_request_is_told_of_that_a_working_process_leaves_unanswered(
    world: World, told: list[Any]
) -> None:
    async def main() -> None:
        gives_up = asyncio.create_task(_give_up(world, 0.6))
        await asyncio.sleep(0.5)
        await _answered(world)
        await gives_up
        await asyncio.sleep(0.1)

    world.run(main())
    assert told == [("unanswered", {"api": ApiKey.DESCRIBE_CLUSTER, "ms": 600})]


def test_a_request_is_not_told_of_that_waits_as_long_as_all_others(
    world: World, told: list[Any]
) -> None:
    async def main() -> None:
        await _answered(world)
        await _give_up(world, 0.6)
        await asyncio.sleep(0.1)

    world.run(main())
    assert told == []


def test_a_client_that_hangs_up_early_or_was_answered_is_no_news(
    world: World, told: list[Any]
) -> None:
    async def main() -> None:
        gives_up = asyncio.create_task(_give_up(world, 0.4))
        await asyncio.sleep(0.3)
        await _answered(world)
        await gives_up
        connection = await world.connect()
        await connection.request(QUESTION, 1.0)
        await asyncio.sleep(1)
        await _answered(world)
        connection.close()
        await asyncio.sleep(0.1)

    world.run(main())
    assert told == []


def test_an_answer_is_told_of_that_says_who_is_not_the_controller(
    world: World, told: list[Any]
) -> None:
    async def main() -> None:
        connection = await world.connect()
        world.mute = True
        asks = asyncio.create_task(connection.request(QUESTION, 1.0))
        await asyncio.sleep(0.2)
        world.seen[0].reply(replace(ANSWER, error_code=ErrorCode.not_controller))
        await asks

    world.run(main())
    assert told == [("denied", {"api": ApiKey.DESCRIBE_CLUSTER, "ms": 199})]
