"""``combined``: what ``reassign``, ``directories`` and ``security`` do, all in one run.

Each asks for other things that a controller does. Together they meet what none of them meets by
itself, and a single seed comes to most of the controller. Replicas move while their disks fail and
their brokers die, and users, quotas, ACLs and tokens change beside them.
"""

from __future__ import annotations

from typing import Final

from harness import seeds
from harness.contracts.abilities import Topics
from harness.contracts.clients import Client
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.client import KafkaClient
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of
from harness.registry import workloads
from harness.spec import RunSpec
from workloads import security
from workloads.common.abilities import refuse_without
from workloads.common.departures import RATE_HZ, Turns, departures
from workloads.common.keys import Keys
from workloads.directories import DISKS, FAILURES, MENDS, PLACES, DirectoryOps, disk_drafts
from workloads.elr import SETTINGS, ElrOps
from workloads.isr import PARTITIONS, IsrOps, Shared, heartbeat_s
from workloads.reassign import ALTERS, BROKERS, FACTOR, OPS_PER_PARTITION, ReassignOps, drafts

TOPIC_PARTITIONS: Final = 3  # with one each, an index that mixes partitions up does no harm
OFTEN: Final = 4  # so many ops for each one that comes between two departures in ``reassign``


@workloads.register(
    "combined",
    WorkloadTraits(
        plays_brokers=True,
        settings={**SETTINGS, **security.SETTINGS},
        rate_hz=2 * RATE_HZ,
        systems=frozenset({"kafka"}),
    ),
)
def combined(spec: RunSpec) -> Workload:
    """Move replicas, have disks fail, change ISRs, ACLs, quotas and passwords, all at once."""
    refuse_without(Topics, spec)
    keys = Keys("p")
    turns = Turns(keys, PARTITIONS, OPS_PER_PARTITION, ALTERS)
    place, fail, mend = disk_drafts(turns)
    often = drafts(turns) | {place: PLACES} | security.drafts(spec)
    drawn = {each: weight * OFTEN for each, weight in often.items()}
    drawn |= {fail: FAILURES, mend: 2 * MENDS} | dict.fromkeys(departures(BROKERS), 1)

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        fleet = Fleet(cluster, cast, BROKERS, heartbeat_s(spec), disks=DISKS)
        shared = Shared(cluster, fleet, waits=True, factor=FACTOR, partitions=TOPIC_PARTITIONS)
        route = Route(cluster, "")
        elr = ElrOps(IsrOps(shared), shared, KafkaClient(cluster), route)
        placed = DirectoryOps(ReassignOps(elr, shared, route), shared, route)
        return CombinedOps(placed, security.SecurityOps(cluster, []))

    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=("consensus", "observers", "reads"),
        reads=frozenset({"describe"}),
    )


class CombinedOps:
    """Does the ops of security with one client, and all others with another one."""

    def __init__(self, of_brokers: Client, of_security: Client) -> None:
        self._of_brokers = of_brokers
        self._of_security = of_security

    async def open(self, node: str) -> CombinedOps:
        """A client that finds the controller by way of ``node``."""
        return CombinedOps(await self._of_brokers.open(node), await self._of_security.open(node))

    async def close(self) -> None:
        """Drop all connections."""
        await self._of_security.close()
        await self._of_brokers.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        client = self._of_security if op.f in security.OPS else self._of_brokers
        return await client.invoke(op)
