"""Real broker processes: registered, in service, stopped, killed, and their way to the leader."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from node.formatting import Quorum
from node.metadata.schemas import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from node.wire.api import ApiKey
from tests.support.live.cluster import eventually
from tests.support.nodes.cluster import (
    HOST,
    WAIT_S,
    ClusterNode,
    NodeCluster,
    in_loop,
    node_cluster,
)
from tests.support.nodes.driver import NO_TIMEOUT, free_port
from tests.support.nodes.verdict import assert_sound

pytestmark = pytest.mark.slow

LOADING = 14
FENCE = 1  # of BrokerRegistrationChangeRecord.fenced


@in_loop
async def test_a_broker_comes_goes_and_is_fenced(tmp_path: Path) -> None:
    async with node_cluster(tmp_path, 1) as cluster:
        cluster.format_initial()
        one, two = cluster.add_broker(10), cluster.add_broker(11)
        await cluster.start()
        for broker in (one, two):
            await in_service(broker)
        await cluster.create("t", replicas=2, partitions=4)
        await listed(one, {"t"})
        assert {p.leader_id for p in await partitions(one)} == {10, 11}
        assert all(set(p.replica_nodes) == {10, 11} for p in await partitions(one))

        given = [await producer_id(b) for b in (one, two, one, two)]

        # it shows nothing and is fenced until it has caught up with what is committed
        kinds = [e["t"] for e in two.kinds("catchup", "image")]
        assert kinds[0] == "catchup"
        assert kinds.count("catchup") == 1
        caught_up = two.kinds("catchup")[0]
        assert all(e["fenced"] for e in answered(two) if e["ts"] < caught_up["ts"])

        # SIGTERM: the controller takes its partitions away, then lets it go
        assert await two.signal(signal.SIGTERM) == 0
        assert answered(two)[-1]["shut_down"]
        assert [e["to"] for e in two.kinds("bstate")[-2:]] == [
            "PENDING_CONTROLLED_SHUTDOWN",
            "SHUTTING_DOWN",
        ]
        await led_by(one, {10})
        first = two.kinds("reg")[-1]
        await two.start()
        await in_service(two)
        given += [await producer_id(b) for b in (one, two)]
        second = two.kinds("reg")[-1]
        assert second["prev"] == first["b_ep"], "it knows that it has stopped in good order"
        assert second["b_ep"] > first["b_ep"]
        assert second["inc_id"] != first["inc_id"]

        # SIGKILL: nobody is told, so the session runs out
        (controller,) = cluster.controllers.values()
        before = len(fencings(controller, 11))
        await two.kill()
        await eventually(lambda: len(fencings(controller, 11)) > before, "it is fenced", WAIT_S)
        await led_by(one, {10})
        await two.start()
        await in_service(two)
        assert two.kinds("reg")[-1]["prev"] == -1
        given += [await producer_id(b) for b in (one, two)]
        assert len(set(given)) == len(given), "no producer id is given twice, nor after a restart"
        epochs = [  # an answer that was late is asked for again: the same epoch once more
            r.broker_epoch
            for r in controller.records()
            if isinstance(r, RegisterBrokerRecord) and r.broker_id == 11
        ]
        assert len(set(epochs)) == 3
        assert epochs == sorted(epochs)
        assert cluster.assert_same_images() > 0
        assert_sound(cluster, "C1", "C3", "C4", "C6", "C10", "C12")


@in_loop
async def test_a_broker_finds_the_leader_however_often_it_changes(tmp_path: Path) -> None:
    """What a client has been told through the broker is there; each leader dies in its turn."""
    async with node_cluster(tmp_path, 3) as cluster:
        cluster.format_initial()
        broker = cluster.add_broker(10)
        await cluster.start()
        await in_service(broker)
        made: set[str] = set()
        writing = asyncio.create_task(create_all(cluster, broker, made))
        try:
            for _ in range(2):
                leader = await cluster.leader()
                count = len(made)
                await leader.kill()
                await eventually(lambda c=count: len(made) > c + 2, "clients go on", WAIT_S)  # type: ignore[misc]
                await leader.start()
        finally:
            writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
        await eventually(
            lambda: (
                broker.kinds("apply")[-1]["off"]
                >= max(n.kinds("apply")[-1]["off"] for n in cluster.controllers.values())
            ),
            "the broker knows all",
            WAIT_S,
        )
        assert set(await broker.topics()) >= made
        assert cluster.assert_same_images() > 0
        assert_sound(cluster, "S1", "S13", "S20", "S21", "C10")


async def create_all(cluster: NodeCluster, broker: ClusterNode, made: set[str]) -> None:
    """Create one topic after the other until cancelled."""
    while True:
        name = f"topic-{len(made)}"
        await cluster.create(name, through=broker)
        made.add(name)


async def in_service(broker: ClusterNode) -> None:
    """Wait until the present process of the broker has been unfenced."""

    def unfenced() -> bool:
        starts = broker.kinds("start")
        if len(starts) < broker.starts:
            return False  # it has said nothing yet
        return any(not e["fenced"] and e["inc"] == starts[-1]["inc"] for e in answered(broker))

    await eventually(unfenced, f"broker {broker.id} is unfenced", WAIT_S)


def answered(broker: ClusterNode) -> list[dict[str, Any]]:
    """The heartbeats that were answered without an error."""
    return [e for e in broker.kinds("hb") if e["err"] == 0]


def fencings(controller: ClusterNode, broker_id: int) -> list[BrokerRegistrationChangeRecord]:
    """The records that fence a broker, oldest first."""
    return [
        r
        for r in controller.records()
        if isinstance(r, BrokerRegistrationChangeRecord)
        and r.broker_id == broker_id
        and r.fenced == FENCE
    ]


async def producer_id(broker: ClusterNode) -> int:
    """InitProducerId, asked until there is an id."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await broker.ask(
                ApiKey.INIT_PRODUCER_ID,
                5,
                transactional_id=None,
                transaction_timeout=NO_TIMEOUT,
                producer_id=-1,
                producer_epoch=-1,
            )
            if not answer.error_code:
                return int(answer.producer_id)
            assert int(answer.error_code) == LOADING
            await asyncio.sleep(0.02)


async def partitions(broker: ClusterNode) -> list[Any]:
    """The partitions of topic t as the broker shows them."""
    topics = await broker.topics()
    return list(topics["t"].partitions) if "t" in topics else []


async def led_by(broker: ClusterNode, leaders: set[int]) -> None:
    """Wait until the broker shows just those leaders, alone in their ISRs."""
    async with asyncio.timeout(WAIT_S):
        while True:
            shown = await partitions(broker)
            if {p.leader_id for p in shown} == leaders == {i for p in shown for i in p.isr_nodes}:
                return
            await asyncio.sleep(0.02)


@in_loop
async def test_brokers_are_paused_killed_together_and_stopped_in_an_election(
    tmp_path: Path,
) -> None:
    async with node_cluster(tmp_path, 3) as cluster:
        cluster.format_initial()
        brokers = [cluster.add_broker(id_) for id_ in (10, 11, 12)]
        one, two, three = brokers
        await cluster.start()
        for broker in brokers:
            await in_service(broker)
        await cluster.create("t", replicas=3, partitions=6)

        # a pause longer than its session: fenced, and unfenced again in the same epoch
        leader = await cluster.leader()
        assert three.process is not None
        three.process.send_signal(signal.SIGSTOP)
        await eventually(lambda: bool(fencings(leader, 12)), "it is fenced", WAIT_S)
        three.process.send_signal(signal.SIGCONT)
        # on a busy machine a broker may be late once more: what counts is how it ends
        await eventually(lambda: relapses(three)[-2:] == [True, False], "it is back", WAIT_S)
        assert len({e["b_ep"] for e in answered(three)}) == 1

        # its controller dies while a broker hands over: the next one lets it go
        assert one.process is not None
        one.process.send_signal(signal.SIGTERM)
        await leader.kill()
        await asyncio.to_thread(one.process.wait, WAIT_S)
        assert one.process.returncode == 0
        assert answered(one)[-1]["shut_down"]
        await leader.start()

        # two at once: each is fenced in a cluster that knows of the other
        leader = await cluster.leader()
        before = {id_: len(fencings(leader, id_)) for id_ in (11, 12)}
        await asyncio.gather(two.kill(), three.kill())
        await eventually(
            lambda: all(len(fencings(leader, id_)) > before[id_] for id_ in before),
            "both are fenced",
            WAIT_S,
        )
        for broker in brokers:
            await broker.start()
            await in_service(broker)
        shown = await partitions(one)
        assert {p.leader_id for p in shown} <= {10, 11, 12}
        assert len({e["b_ep"] for b in brokers for e in b.kinds("reg") if e["err"] == 0}) == 6
        assert cluster.assert_same_images() > 0
        assert_sound(cluster, "C1", "C3", "C4", "C6", "C10", "C12", "S21")


def relapses(broker: ClusterNode) -> list[bool]:
    """Each time that the broker was told whether it is fenced, when that was news."""
    return [e["fenced"] for e in broker.kinds("fence")]


@in_loop
async def test_a_node_with_both_roles_serves_stops_and_comes_back(tmp_path: Path) -> None:
    """Its broker is fenced when it stops: the next incarnation need not wait (KAFKA-19130)."""
    async with node_cluster(tmp_path, 0, broker_session_timeout_ms="60000") as cluster:
        inside, outside = free_port(HOST), free_port(HOST)
        cluster.settings["controller.quorum.bootstrap.servers"] = f"{HOST}:{inside}"
        listeners = f"PLAINTEXT://{HOST}:{outside},CONTROLLER://{HOST}:{inside}"
        node = cluster.add(5, "broker,controller", listeners)
        node.format(Quorum(standalone=True))
        given = []
        for number in range(3):
            await node.start()
            await in_service(node)
            await cluster.create(f"topic-{number}", through=node, partitions=2)
            await listed(node, {f"topic-{n}" for n in range(number + 1)})
            given.append(await producer_id(node))
            assert await node.signal(signal.SIGTERM) == 0
        assert len(set(given)) == 3
        registered = [(e["prev"], e["b_ep"]) for e in node.kinds("reg") if e["err"] == 0]
        before, epochs = zip(*dict.fromkeys(registered), strict=True)
        assert epochs == tuple(sorted(epochs))
        assert before == (-1, *epochs[:-1]), "it stopped in good order each time"
        assert_sound(cluster, "C1", "C6", "C10", "S20", "S21")


async def listed(broker: ClusterNode, names: set[str]) -> None:
    """Wait until the broker shows just those topics."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if set(await broker.topics()) == names:
                return
            await asyncio.sleep(0.02)
