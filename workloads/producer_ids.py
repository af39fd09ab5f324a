"""``producer-ids``: blocks of producer ids for brokers, and ids for producers; none comes twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.types import BrokerId
from kio.static.primitive import i32Timedelta, i64

from harness import seeds
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, each_thread, map_ops, mix, repeat
from harness.history.ops import Op
from harness.kafka.broker import Cast, register
from harness.kafka.route import RETRY_S, Cluster, Route, cluster_of, deadline_s, no_error, request
from harness.registry import systems, workloads
from harness.spec import RunSpec
from node.wire.network import Caller
from workloads.common.on_brokers import by_brokers

ALLOCATE = "allocate"
STALE = "allocate-stale"  # by an epoch that the broker never had: ok with None when refused
REFUSED = "stale-broker-epoch"
INIT = "init"  # by the client of a broker, for as many producers
PRODUCERS: Final = 25
NOT_YET = "coordinator-load-in-progress"  # a broker has no block, or is not registered yet
_FOR_A_PRODUCER = InitProducerIdRequest(
    transactional_id=None, transaction_timeout=i32Timedelta.parse(timedelta(seconds=60))
)


@workloads.register(
    "producer-ids",
    WorkloadTraits(prefixed=True, plays_brokers=True, refusals=frozenset({NOT_YET})),
)
def producer_ids(spec: RunSpec) -> Workload:
    """Take blocks of producer ids; no id may be given twice, and later blocks must be higher.

    Where brokers answer clients, theirs ask them for ids: each broker takes blocks for that.
    """
    serves = systems.traits(spec.system).of(spec).serves_clients

    of_broker = by_brokers(spec, lambda draft: draft._replace(f=INIT))
    blocks = mix(repeat(Draft(ALLOCATE)), repeat(Draft(STALE)), weights=(9, 1))

    def client(system: System) -> Client:
        return ProducerIdOps(cluster_of(system), Cast(seeds.rng(spec.seed, "brokers")))

    return Workload(
        client=client,
        generator=map_ops(of_broker, blocks) if serves else blocks,
        final_generator=each_thread(Draft(ALLOCATE)),  # a broker may wait for its session to end
        checkers=("producer-ids", "consensus", "observers"),
    )


class ProducerIdOps:
    """Plays one broker, which registers before its first op and then takes blocks."""

    def __init__(self, cluster: Cluster, cast: Cast, home: str = "") -> None:
        self._cast = cast
        self._route = Route(cluster, home)
        self._broker = cast.another() if home else None

    async def open(self, node: str) -> ProducerIdOps:
        """A broker of its own, which finds the controller by way of ``node``."""
        return ProducerIdOps(self._route.cluster, self._cast, node)

    async def invoke(self, op: Op) -> Op:
        """Take a block; ok with ``[first id, how many]``, of producers with the ids of all."""
        assert op.f in (ALLOCATE, STALE, INIT), f"producer-ids has no op {op.f!r}"  # noqa: S101
        try:
            if op.f == INIT:
                by_s = deadline_s()
                return op.with_(type="ok", value=[await self._init(by_s) for _ in range(PRODUCERS)])
            return op.with_(type="ok", value=await self._allocate(behind=op.f == STALE))
        except Outcome as outcome:
            if op.f == STALE and outcome.error == REFUSED:
                return op.with_(type="ok")
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()

    async def _init(self, by_s: float) -> int:
        """Ask the home for the id of a producer, again while it has none."""
        home = self._route.home
        while True:
            try:
                answer = await request(await self._route.connect(home), _FOR_A_PRODUCER)
                return int(no_error(answer).producer_id)
            except Outcome as outcome:
                waits = outcome.error == NOT_YET
                if not waits or asyncio.get_running_loop().time() + RETRY_S >= by_s:
                    raise
            await asyncio.sleep(RETRY_S)

    async def _allocate(self, *, behind: bool) -> list[int]:
        broker, by_s = self._broker, deadline_s()
        assert broker is not None, "a client plays a broker only once it is opened"  # noqa: S101
        if broker.epoch is None:
            try:
                await register(self._route, broker, by_s)
            except Outcome as outcome:  # whatever became of it: no block was asked for
                raise Outcome(f"register: {outcome.error}", definite=True) from outcome
        wanted = AllocateProducerIdsRequest(
            broker_id=BrokerId(broker.id), broker_epoch=i64((broker.epoch or 0) - behind)
        )

        async def attempt(connection: Caller) -> list[int]:
            block = no_error(await request(connection, wanted))
            return [int(block.producer_id_start), int(block.producer_id_len)]

        return await self._route.at_controller(attempt, by_s)
