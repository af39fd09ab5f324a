"""Producer ids: blocks, how a broker comes by them, and what clients are answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.broker.controller_channel import ControllerChannel
from node.broker.producer_ids import RETRY_BACKOFF_MS, ProducerIdBlocks, ProducerIds
from node.wire.api import ApiKey
from node.wire.connection import Connection
from node.wire.errors import Disconnected
from node.wire.payloads import ApiSchema, api_schema
from node.wire.structs import build
from tests.support.nodes.api_homes import Site, broker_site, controller_site, versions
from tests.support.nodes.controllers import Cluster
from tests.support.nodes.driver import NO_TIMEOUT, in_loop, until

NONE, LOADING, NOT_COORDINATOR, INVALID = 0, 14, 16, 42
HIGHEST = (1 << 63) - 1


class Channel:
    """Answers with blocks and failures in turn."""

    def __init__(self, *answers: tuple[int, int] | int | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.closed = False

    async def request(self, api_key: int, make: Any, timeout_s: float) -> Any:
        assert api_key == ApiKey.ALLOCATE_PRODUCER_IDS
        assert timeout_s > 0
        schema: ApiSchema = api_schema(api_key, 0)
        self.asked.append(make(schema))
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        error, (start, length) = (answer, (-1, 0)) if isinstance(answer, int) else (0, answer)
        return build(
            schema.response,
            throttle_time=NO_TIMEOUT,
            error_code=error,
            producer_id_start=start,
            producer_id_len=length,
        )

    def close(self) -> None:
        self.closed = True


class Broker:
    """The ids of one broker whose controller is a ``Channel``."""

    def __init__(self, *answers: tuple[int, int] | int | Exception, epoch: int = 7) -> None:
        self.channel, self.now_ms, self.epoch = Channel(*answers), 1_000, epoch
        self.fatal: list[BaseException] = []
        self.ids = ProducerIds(
            3,
            lambda: self.epoch,
            self.channel,
            now_ms=lambda: self.now_ms,
            on_fatal=self.fatal.append,
        )

    async def take(self) -> int | None:
        """Ask, and let what that sets off come to its end."""
        id_ = self.ids.take()
        for _ in range(5):
            await asyncio.sleep(0)
        return id_


# --------------------------------------------------------------------------- blocks


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.tuples(st.integers(-5, 60), st.integers(-2, 30)),
            st.tuples(st.integers(HIGHEST - 40, HIGHEST), st.integers(1, 30)),
        ),
        max_size=80,
    )
)
def test_no_id_is_given_twice_whatever_the_controller_says(steps: list[Any]) -> None:
    blocks = ProducerIdBlocks()
    taken: list[int] = []
    for step in steps:
        if step is not None:
            blocks.give(*step)
            continue
        id_ = blocks.take()
        if id_ is not None:
            taken.append(id_)
    assert taken == sorted(set(taken))
    assert all(0 <= id_ < HIGHEST for id_ in taken)


def test_all_ids_of_a_block_are_given_and_the_next_is_asked_for_in_time() -> None:
    blocks = ProducerIdBlocks()
    assert (blocks.wants_block, blocks.take()) == (True, None)
    assert blocks.give(2000, 20)
    assert [blocks.take() for _ in range(17)] == list(range(2000, 2017))
    wanted = [(blocks.wants_block, blocks.take()) for _ in range(2)]
    assert wanted == [(False, 2017), (True, 2018)]
    assert blocks.give(5000, 2)
    assert [blocks.wants_block, *(blocks.take() for _ in range(4))] == [
        False,
        2019,
        5000,
        5001,
        None,
    ]


@pytest.mark.parametrize(
    ("start", "length"),
    [(1999, 20), (2000, 20), (2019, 1), (-1, 5), (3000, 0), (3000, -1), (HIGHEST, 1)],
)
def test_a_block_that_cannot_be_new_is_refused(start: int, length: int) -> None:
    blocks = ProducerIdBlocks()
    assert blocks.give(2000, 20)
    assert not blocks.give(start, length)


# --------------------------------------------------------------------------- of a broker


@in_loop
async def test_ids_come_in_order_over_blocks() -> None:
    broker = Broker((0, 3), (3000, 2), (4000, 1))
    taken = [await broker.take() for _ in range(7)]
    assert taken == [None, 0, 1, 2, 3000, 3001, 4000]
    assert {(int(r.broker_id), r.broker_epoch) for r in broker.channel.asked} == {(3, 7)}


@in_loop
async def test_one_block_is_asked_for_at_a_time() -> None:
    broker = Broker((0, 1000))
    assert [broker.ids.take() for _ in range(20)] == [None] * 20
    assert await broker.take() is None
    assert len(broker.channel.asked) == 1
    assert await broker.take() == 0


@in_loop
@pytest.mark.parametrize("failure", [77, 102, 41, (-1, 5), Disconnected("lost")])
async def test_a_failure_is_waited_out_and_then_asked_again(failure: Any) -> None:
    broker = Broker(failure, (0, 10))
    assert await broker.take() is None
    assert await broker.take() is None
    assert len(broker.channel.asked) == 1, "not at once"
    broker.now_ms += RETRY_BACKOFF_MS
    assert await broker.take() is None
    assert len(broker.channel.asked) == 2
    assert await broker.take() == 0
    assert broker.fatal == []


@in_loop
async def test_a_broker_without_a_registration_asks_for_nothing() -> None:
    broker = Broker((0, 10), epoch=-1)
    assert await broker.take() is None
    assert broker.channel.asked == []
    broker.epoch = 9
    assert await broker.take() is None
    assert [r.broker_epoch for r in broker.channel.asked] == [9]


@in_loop
async def test_an_error_of_ours_ends_the_node_and_a_closed_source_asks_no_more() -> None:
    broker = Broker(ValueError("no such thing"), (0, 1))
    assert await broker.take() is None
    assert [type(error) for error in broker.fatal] == [ValueError]
    broker.ids.close()
    assert await broker.take() is None
    assert broker.channel.closed
    assert len(broker.channel.asked) == 1


# --------------------------------------------------------------------------- on the wire


async def init(site: Site, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    """InitProducerId: error, id, epoch."""
    values = {"transactional_id": None, "transaction_timeout": NO_TIMEOUT}
    no_id = {"producer_id": -1, "producer_epoch": -1}
    answer = await site.ask(ApiKey.INIT_PRODUCER_ID, version, **(values | no_id | fields))
    return int(answer.error_code), int(answer.producer_id), int(answer.producer_epoch)


async def an_id(site: Site, version: int = 5, **fields: Any) -> int:
    """Ask until there is one."""
    while True:
        error, id_, epoch = await init(site, version, **fields)
        if error == NONE:
            assert epoch == 0
            return id_
        assert (error, id_, epoch) == (LOADING, -1, -1)


@contextlib.asynccontextmanager
async def broker_with_ids(cluster: Cluster, controller: Site, id_: int) -> AsyncIterator[Site]:
    """A broker's listener whose ids come from a controller, over sockets."""

    def no_error(error: BaseException) -> None:
        raise AssertionError(error)

    async with broker_site(cluster, [controller.endpoint], id_) as site:
        site.node.producer_ids = ProducerIds(
            id_,
            lambda: cluster.controller.image.brokers[id_].epoch,
            ControllerChannel(lambda: controller.endpoint, Connection.open, retry_backoff_ms=1),
            now_ms=lambda: 0,
            on_fatal=no_error,
        )
        try:
            yield site
        finally:
            site.node.producer_ids.close()


@in_loop
async def test_two_brokers_never_give_the_same_id() -> None:
    cluster = Cluster(2)
    async with (
        controller_site(cluster) as controller,
        broker_with_ids(cluster, controller, 1) as one,
        broker_with_ids(cluster, controller, 2) as two,
    ):
        taken = [await an_id(site, v) for v in versions(one.apis, 22) for site in (one, two)]
        assert len(set(taken)) == len(taken) == 12
        # drain a block: the next one is there before it is needed, and is nobody else's
        source = one.node.producer_ids
        assert source is not None
        taken += [source.take() or -1 for _ in range(994)]
        await until(
            lambda: cluster.controller.image.next_producer_id == 3000, "one has another block"
        )
        taken += [await an_id(site) for site in (one, two) for _ in range(3)]
        assert len(set(taken)) == len(taken)
        assert -1 not in taken
        assert {id_ // 1000 for id_ in taken} == {0, 1, 2}


@in_loop
async def test_what_clients_are_refused() -> None:
    cluster = Cluster(1)
    async with controller_site(cluster) as controller:
        async with broker_with_ids(cluster, controller, 1) as site:
            assert await init(site, transactional_id="") == (INVALID, -1, -1)
            assert await init(site, producer_id=5) == (INVALID, -1, -1)
            assert await init(site, producer_epoch=5) == (INVALID, -1, -1)
            assert await init(site, transactional_id="t") == (NOT_COORDINATOR, -1, -1)
            old = await an_id(site)
            assert await an_id(site, producer_id=old, producer_epoch=4) == old + 1
        async with broker_site(cluster, [controller.endpoint]) as unregistered:
            assert await init(unregistered) == (LOADING, -1, -1)
