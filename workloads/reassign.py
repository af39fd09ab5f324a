"""``reassign``: replicas move between brokers, which die, fall silent and stop meanwhile.

Leaders change ISRs as in ``elr``, and so a reassignment comes to its end, or not (KIP-455). Who
leads must have all messages (C13), whoever the replicas are.
"""

from __future__ import annotations

from random import Random

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from harness import seeds
from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import REQUEST_TIMEOUT, KafkaClient
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of, deadline_s, no_error, request, the_row
from harness.registry import workloads
from harness.spec import RunSpec
from node.wire.network import Caller
from workloads.common.abilities import refuse_without
from workloads.common.departures import RATE_HZ, Drawn, Turns, departures
from workloads.common.keys import Keys
from workloads.elr import SETTINGS, ElrOps
from workloads.isr import (
    PARTITIONS,
    TOPIC_PREFIX,
    IsrOps,
    Shared,
    heartbeat_s,
)

BROKERS, FACTOR = 4, 3
OPS_PER_PARTITION = 60  # alters; then come the next ones, and these may be deleted
ALTERS, LOOKS, MOVES, MINIMA = 60, 12, 5, 3  # weights; of all others, 1


@workloads.register(
    "reassign", WorkloadTraits(plays_brokers=True, settings=SETTINGS, rate_hz=RATE_HZ)
)
def reassign(spec: RunSpec) -> Workload:
    """Move replicas while brokers die and leaders change ISRs; who leads lacks no messages."""
    refuse_without(Topics, spec)
    keys = Keys("p")
    drawn = drafts(Turns(keys, PARTITIONS, OPS_PER_PARTITION, ALTERS))
    drawn |= dict.fromkeys(departures(BROKERS), 1)

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        fleet = Fleet(cluster, cast, BROKERS, heartbeat_s(spec))
        shared = Shared(cluster, fleet, waits=True, factor=FACTOR)
        route = Route(cluster, "")
        elr = ElrOps(IsrOps(shared), shared, KafkaClient(cluster), route)
        return ReassignOps(elr, shared, route)

    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=("consensus", "observers", "reads"),
        reads=frozenset({"describe"}),
    )


def drafts(turns: Turns) -> dict[Drawn, int]:
    """Return the functions that draw ops, and the weight of each; brokers go without them."""

    def alter(rng: Random, n: int) -> Draft:
        members = [place for place in range(BROKERS) if rng.random() < 0.7]  # noqa: PLR2004
        return Draft("alter", {"members": members, "how": "now"}, turns.name(n, ALTERS))

    def describe(_: Random, n: int) -> Draft:
        return Draft("describe", None, turns.name(n, LOOKS))

    def move(rng: Random, n: int) -> Draft:
        if rng.random() < 0.2:  # noqa: PLR2004 - what was begun is given up
            return Draft("reassign", {"replicas": None}, turns.name(n, MOVES))
        replicas = rng.sample(range(BROKERS), FACTOR)
        return Draft("reassign", {"replicas": replicas}, turns.name(n, MOVES))

    def minimum(rng: Random, n: int) -> Draft:
        size = rng.choice((None, *range(1, FACTOR + 1)))
        return Draft("min-isr", {"size": size}, turns.name(n, MINIMA))

    def elect(_: Random, n: int) -> Draft:
        return Draft("elect", None, turns.name(n))

    found: dict[Drawn, int] = {alter: ALTERS, describe: LOOKS, move: MOVES, minimum: MINIMA}
    return found | dict.fromkeys((elect, turns.retire), 1)


class ReassignOps:
    """Does what ``elr`` does, and moves replicas."""

    def __init__(self, elr: ElrOps, shared: Shared, route: Route) -> None:
        self._elr = elr
        self._shared = shared
        self._route = route

    async def open(self, node: str) -> ReassignOps:
        """A client that finds the controller by way of ``node``."""
        elr = await self._elr.open(node)
        return ReassignOps(elr, self._shared, Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._elr.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        if op.f != "reassign":
            return await self._elr.invoke(op)
        try:
            await self._reassign(op.key or "", op.value["replicas"])
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok")

    async def _reassign(self, key: str, places: list[int] | None) -> None:
        """Have the key's partition move to these brokers; None: give a move up."""
        ids = self._shared.fleet.ids
        partition = ReassignablePartition(
            partition_index=i32(self._shared.index_of(key)),
            replicas=None if places is None else tuple(BrokerId(ids[each]) for each in places),
        )
        topic = ReassignableTopic(name=TopicName(TOPIC_PREFIX + key), partitions=(partition,))
        wanted = AlterPartitionReassignmentsRequest(timeout=REQUEST_TIMEOUT, topics=(topic,))

        async def attempt(connection: Caller) -> None:
            answer = no_error(await request(connection, wanted))
            if len(answer.responses) != 1:
                raise Outcome("bad-answer: not of the one topic", definite=False)
            the_row(answer.responses[0].partitions)

        await self._route.to_change(attempt, deadline_s())
