"""``directories``: brokers of several disks, which fail, come back, and are replaced by empty ones.

Brokers tell on which disk each replica is, and which disks have failed (KIP-858). They also die and
fall silent, and leaders change ISRs, as in ``elr``. Who leads has its replica on a disk that works
(C15), and one that is not empty (C13).
"""

from __future__ import annotations

from random import Random
from typing import Any, Final
from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0.request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from harness import seeds
from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import KafkaClient
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of, deadline_s, no_error, request, the_row
from harness.registry import workloads
from harness.spec import RunSpec
from node.metadata.state import LOST_DIR
from node.wire.network import Caller
from workloads.common.abilities import refuse_without
from workloads.common.departures import RATE_HZ, Drawn, Turns, departures
from workloads.common.keys import Keys
from workloads.elr import SETTINGS, ElrOps
from workloads.isr import (
    BROKERS,
    PARTITIONS,
    IsrOps,
    Shared,
    heartbeat_s,
    the_topic,
)

DISKS: Final = 2  # of each broker
OPS_PER_PARTITION: Final = 60  # alters; then come the next ones, and these may be deleted
# weights; of all others, 1
ALTERS, LOOKS, PLACES, MINIMA, FAILURES, MENDS, ELECTIONS = 90, 12, 30, 3, 2, 2, 2


@workloads.register(
    "directories", WorkloadTraits(plays_brokers=True, settings=SETTINGS, rate_hz=RATE_HZ)
)
def directories(spec: RunSpec) -> Workload:
    """Have disks of brokers fail and be replaced; who leads has a disk that is not empty."""
    refuse_without(Topics, spec)
    keys = Keys("p")
    drawn = drafts(Turns(keys, PARTITIONS, OPS_PER_PARTITION, ALTERS))

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        fleet = Fleet(cluster, cast, BROKERS, heartbeat_s(spec), disks=DISKS)
        shared, route = Shared(cluster, fleet, waits=True), Route(cluster, "")
        elr = ElrOps(IsrOps(shared), shared, KafkaClient(cluster), route)
        return DirectoryOps(elr, shared, route)

    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=("consensus", "observers", "reads"),
        reads=frozenset({"describe"}),
    )


def drafts(turns: Turns) -> dict[Drawn, int]:
    """Return the functions that draw ops, and the weight of each."""

    def alter(rng: Random, n: int) -> Draft:
        members = [place for place in range(BROKERS) if rng.random() < 0.4]  # noqa: PLR2004
        return Draft("alter", {"members": members, "how": "now"}, turns.name(n, ALTERS))

    def describe(_: Random, n: int) -> Draft:
        return Draft("describe", None, turns.name(n, LOOKS))

    def minimum(rng: Random, n: int) -> Draft:
        size = rng.choice((None, *range(1, BROKERS + 1)))
        return Draft("min-isr", {"size": size}, turns.name(n, MINIMA))

    def elect(_: Random, n: int) -> Draft:
        return Draft("elect", None, turns.name(n, ELECTIONS))

    place, fail, mend = disk_drafts(turns)
    found: dict[Drawn, int] = {alter: ALTERS, describe: LOOKS, place: PLACES}
    found |= {minimum: MINIMA, elect: ELECTIONS, fail: FAILURES, mend: MENDS}
    return found | dict.fromkeys((turns.retire, *departures(BROKERS)), 1)


def disk_drafts(turns: Turns) -> tuple[Drawn, Drawn, Drawn]:
    """Return the functions that draw where a replica is, which disk fails, and which is mended."""

    def one_of(rng: Random) -> dict[str, Any]:
        return {"member": rng.randrange(BROKERS), "disk": rng.randrange(DISKS)}

    def place(rng: Random, n: int) -> Draft:
        return Draft("place", one_of(rng), turns.name(n, PLACES))

    def fail(rng: Random, _: int) -> Draft:
        return Draft("fail-disk", one_of(rng))

    def mend(rng: Random, _: int) -> Draft:
        if rng.random() < 0.5:  # noqa: PLR2004
            return Draft("mend-disks", {"member": rng.randrange(BROKERS)})
        return Draft("replace-disk", one_of(rng))

    return place, fail, mend


class DirectoryOps:
    """Does what ``elr`` does, places replicas, and has disks fail."""

    def __init__(self, elr: Client, shared: Shared, route: Route) -> None:
        self._elr = elr
        self._shared = shared
        self._fleet = shared.fleet
        self._route = route

    async def open(self, node: str) -> DirectoryOps:
        """A client that finds the controller by way of ``node``."""
        elr = await self._elr.open(node)
        return DirectoryOps(elr, self._shared, Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._elr.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        asked: dict[str, Any] = dict(op.value or {})
        try:
            match op.f:
                case "place":
                    asked["directory"] = await self._place(op.key or "", **asked)
                case "fail-disk":
                    broker, epoch, disk = self._fleet.fail_disk(asked["member"], asked["disk"])
                    asked |= {"broker": broker, "epoch": epoch, "directory": disk.hex}
                case "mend-disks":
                    asked["epoch"] = await self._fleet.mend_disks(asked["member"])
                case "replace-disk":
                    asked["epoch"] = await self._fleet.replace_disk(asked["member"], asked["disk"])
                case _:
                    return await self._elr.invoke(op)
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok", value=asked)

    async def _place(self, key: str, member: int, disk: int) -> str:
        """Have a broker tell the controller on which disk a replica is; that one's id in hex.

        It moves the replica there, or makes a new one if the disk is gone that it was on. While
        that one has failed it makes none: it only tells that the replica is lost.
        """
        known, broker = self._shared.known.get(key), self._fleet.members[member].broker
        if known is None or broker.epoch is None:
            raise Outcome("nothing-to-place", definite=True)
        directory = broker.directories[disk]
        if broker.placed.get(key) in broker.failed:
            directory = LOST_DIR
        elif directory in broker.failed:
            raise Outcome("has-failed", definite=True)
        index = self._shared.index_of(key)
        wanted = _assignment(broker.id, broker.epoch, directory, known.topic_id, index)

        async def attempt(connection: Caller) -> None:
            of_directories = no_error(await request(connection, wanted)).directories
            if len(of_directories) != 1:
                raise Outcome("bad-answer: not of the one directory", definite=False)
            the_row(the_topic(of_directories[0].topics).partitions)

        await self._route.at_controller(attempt, deadline_s())
        if directory != LOST_DIR:
            broker.placed[key] = directory
        return directory.hex


def _assignment(
    broker_id: int, epoch: int, directory: UUID, topic_id: UUID, index: int
) -> AssignReplicasToDirsRequest:
    topic = TopicData(topic_id=topic_id, partitions=(PartitionData(partition_index=i32(index)),))
    return AssignReplicasToDirsRequest(
        broker_id=BrokerId(broker_id),
        broker_epoch=i64(epoch),
        directories=(DirectoryData(id_=directory, topics=(topic,)),),
    )
