"""``elr``: brokers die, fall silent and stop, while leaders change ISRs and minima are moved.

The workload tries eligible leader replicas (KIP-966). Clients play the brokers, as in ``isr``. A
broker that dies comes back as an incarnation that may have lost messages, and its id says so (C13).
"""

from __future__ import annotations

from random import Random
from typing import Any

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32

from harness import seeds
from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome, TopicClient
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import REQUEST_TIMEOUT, TOPIC_RESOURCE, KafkaClient
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of, deadline_s, no_error, request, the_row
from harness.kafka.topics import create_by_hand
from harness.registry import workloads
from harness.spec import RunSpec
from node.wire.network import Caller
from workloads.common.abilities import refuse_without
from workloads.common.departures import RATE_HZ, Drawn, Turns, departures
from workloads.common.keys import Keys
from workloads.isr import (
    BROKERS,
    HEARTBEAT_SETTING,
    NO_BROKERS,
    PARTITIONS,
    TOPIC_PREFIX,
    IsrOps,
    Shared,
    heartbeat_s,
)

SETTINGS = {"broker.session.timeout.ms": "2000", HEARTBEAT_SETTING: "300"}
MIN_ISR = "min.insync.replicas"
BROKER_RESOURCE, CLUSTER = 4, ""
SET, DELETE = 0, 1
UNCLEAN = 1  # type of an election
ELECTED = "elected"
NO_ELECTION = ("election-not-needed", "eligible-leaders-not-available")  # answers, too
OPS_PER_PARTITION = 50  # alters; then come the next ones, and these may be deleted
ALTERS, LOOKS, MINIMA = 60, 12, 6  # weights; of all others, 1
CHECKERS = ("isr", "consensus", "observers", "reads")


@workloads.register("elr", WorkloadTraits(plays_brokers=True, settings=SETTINGS, rate_hz=RATE_HZ))
def elr(spec: RunSpec) -> Workload:
    """Change ISRs and their minimum while brokers die; nobody leads who may lack messages."""
    refuse_without(Topics, spec)

    def client(system: System) -> Client:
        return ops(spec, system)

    keys = Keys("p")
    drawn = drafts(keys)
    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=CHECKERS,
        reads=frozenset({"describe"}),
    )


def ops(spec: RunSpec, system: System) -> ElrOps:
    """The client of a run, whose brokers are played."""
    cluster = cluster_of(system)
    fleet = Fleet(cluster, Cast(seeds.rng(spec.seed, "brokers")), BROKERS, heartbeat_s(spec))
    shared = Shared(cluster, fleet, waits=True)
    return ElrOps(IsrOps(shared), shared, KafkaClient(cluster), Route(cluster, ""))


def drafts(keys: Keys) -> dict[Drawn, int]:
    """Return the functions that draw ops, and the weight of each."""
    turns = Turns(keys, PARTITIONS, OPS_PER_PARTITION, ALTERS)

    def alter(rng: Random, n: int) -> Draft:
        members = [place for place in range(BROKERS) if rng.random() < 0.5]  # noqa: PLR2004
        how = rng.choice(("now", "now", "now", "now", "old-members", "old-epoch"))
        return Draft("alter", {"members": members, "how": how}, turns.name(n, ALTERS))

    def describe(_: Random, n: int) -> Draft:
        return Draft("describe", None, turns.name(n, LOOKS))

    def minimum(rng: Random, n: int) -> Draft:
        if rng.random() < 0.3:  # noqa: PLR2004 - of the cluster
            return Draft("min-isr", {"size": 1 + rng.randrange(BROKERS)})
        size = rng.choice((None, *range(1, BROKERS + 1)))
        return Draft("min-isr", {"size": size}, turns.name(n, MINIMA))

    def elect(_: Random, n: int) -> Draft:
        return Draft("elect", None, turns.name(n))

    def flash(rng: Random, n: int) -> Draft:
        return Draft("flash", {"size": 1 + rng.randrange(BROKERS)}, f"f{n}")

    found: dict[Drawn, int] = {alter: ALTERS, describe: LOOKS, minimum: MINIMA}
    return found | dict.fromkeys((elect, turns.retire, flash, *departures(BROKERS)), 1)


class ElrOps:
    """Does what ``isr`` does, moves minima, elects, and has brokers die or fall silent."""

    def __init__(self, isr: IsrOps, shared: Shared, topics: TopicClient, route: Route) -> None:
        self._isr = isr
        self._shared = shared
        self._fleet = shared.fleet
        self._topics = topics
        self._route = route

    async def open(self, node: str) -> ElrOps:
        """A client that finds the controller by way of ``node``."""
        isr, topics = await self._isr.open(node), await self._topics.open(node)
        return ElrOps(isr, self._shared, topics, Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._topics.close()
        await self._isr.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        asked: dict[str, Any] = op.value or {}
        try:
            match op.f:
                case "min-isr":
                    topic = None if op.key is None else TOPIC_PREFIX + op.key
                    await set_minimum(self._route, topic, asked["size"])
                    return op.with_(type="ok")
                case "elect":
                    return op.with_(
                        type="ok",
                        value={"told": await self._elect(op.key or "")},
                    )
                case "retire":
                    await self._topics.delete(TOPIC_PREFIX + (op.key or ""))
                    return op.with_(type="ok")
                case "flash":
                    await self._flash(op.key or "", asked["size"])
                    return op.with_(type="ok")
                case "crash":
                    epoch = await self._fleet.crash(asked["member"])
                    return op.with_(type="ok", value={**asked, "epoch": epoch})
                case "silence":
                    self._fleet.silence(asked["member"], asked["for_s"])
                    return op.with_(type="ok")
                case _:
                    return await self._isr.invoke(op)
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)

    async def _elect(self, key: str) -> str:
        """Ask for a leader of the key's partition."""
        return await elect(self._route, TOPIC_PREFIX + key, self._shared.index_of(key))

    async def _flash(self, key: str, size: int) -> None:
        """Make a topic and delete it, then set the minimum of the cluster: all soon after another.

        A node that reads all of this at once must get the same image as one that was there.
        """
        if not self._fleet.is_registered:
            raise Outcome(NO_BROKERS, definite=True)
        try:
            await create_by_hand(self._route, TOPIC_PREFIX + key, self._fleet.ids, deadline_s())
            await self._topics.delete(TOPIC_PREFIX + key)
            await set_minimum(self._route, None, size)
        except Outcome as outcome:  # whatever came of it, something may have been done
            raise Outcome(outcome.error, definite=False) from outcome


async def elect(route: Route, topic: str, index: int = 0) -> str:
    """Ask for a leader, at the cost of messages where there is no other; what came of it.

    Raises:
        Outcome: It was refused for another reason, or nobody knows.
    """
    partition = TopicPartitions(topic=TopicName(topic), partitions=(i32(index),))
    wanted = ElectLeadersRequest(
        election_type=i8(UNCLEAN), topic_partitions=(partition,), timeout=REQUEST_TIMEOUT
    )

    async def attempt(connection: Caller) -> None:
        answer = no_error(await request(connection, wanted))
        if len(answer.replica_election_results) != 1:
            raise Outcome("bad-answer: not of the one topic", definite=False)
        the_row(answer.replica_election_results[0].partition_result)

    try:
        await route.to_change(attempt, deadline_s())
    except Outcome as outcome:
        if outcome.error not in NO_ELECTION:
            raise
        return outcome.error
    return ELECTED


async def set_minimum(route: Route, topic: str | None, size: int | None) -> None:
    """Set how large an ISR must be to acknowledge, of a topic or of the cluster; raises Outcome."""
    change = AlterableConfig(
        name=MIN_ISR,
        config_operation=i8(DELETE if size is None else SET),
        value=None if size is None else str(size),
    )
    resource = AlterConfigsResource(
        resource_type=i8(BROKER_RESOURCE if topic is None else TOPIC_RESOURCE),
        resource_name=CLUSTER if topic is None else topic,
        configs=(change,),
    )
    wanted = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

    async def attempt(connection: Caller) -> None:
        the_row((await request(connection, wanted)).responses)

    await route.to_change(attempt, deadline_s())
