"""``cordons``: brokers are cordoned and opened again while topics are made, grown and moved.

A broker tells which of its disks get no new replicas (KIP-1066); when all are, it gets none at all
(C18), by number or by hand. What it has stays, and may be moved away. Brokers die, stop and are
forgotten meanwhile, and what a controller answers is judged, as in ``admin`` (C17).
"""

from __future__ import annotations

from random import Random
from typing import Final

from harness import seeds
from harness.contracts.clients import Client
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft
from harness.history.ops import Op
from harness.kafka.broker import Cast
from harness.kafka.fleet import Fleet
from harness.kafka.route import Route, cluster_of
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.admin import (
    BROKERS,
    AdminOps,
    asking,
    create,
    delete,
    elect,
    forget,
    grow,
    look,
    reassign,
)
from workloads.common.departures import RATE_HZ, Drawn
from workloads.elr import SETTINGS
from workloads.isr import heartbeat_s

DISKS: Final = 2  # of each broker
READING_S: Final = 3.0  # that a broker may need until it knows of itself, at most
WHICH: Final = ((), (), (0,), (1,), (0, 1), (0, 1))  # are cordoned


@workloads.register(
    "cordons",
    WorkloadTraits(
        plays_brokers=True, settings=SETTINGS, rate_hz=RATE_HZ, systems=frozenset({"kafka"})
    ),
)
def cordons(spec: RunSpec) -> Workload:
    """Cordon brokers while replicas are placed; who is cordoned gets none."""

    def client(system: System) -> Client:
        cluster = cluster_of(system)
        cast = Cast(seeds.rng(spec.seed, "brokers"))
        fleet = Fleet(cluster, cast, BROKERS, heartbeat_s(spec), disks=DISKS, reading_s=READING_S)
        for member in range(BROKERS):
            fleet.cordon(member, ())
        return CordonOps(AdminOps(fleet, Route(cluster, "")), fleet)

    drawn: dict[Drawn, int] = {
        cordon: 6,
        create: 8,
        grow: 6,
        delete: 4,
        reassign: 10,
        look: 1,
        elect: 1,
        forget: 1,
    }
    return asking(client, drawn)


def cordon(rng: Random, _: int) -> Draft:
    """Draw a broker, and which of its disks are cordoned from now on."""
    return Draft("cordon", {"member": rng.randrange(BROKERS), "disks": rng.choice(WHICH)})


class CordonOps:
    """Does what ``admin`` does, and has brokers cordon their disks."""

    def __init__(self, admin: AdminOps, fleet: Fleet) -> None:
        self._admin = admin
        self._fleet = fleet

    async def open(self, node: str) -> CordonOps:
        """A client that finds the controller by way of ``node``."""
        return CordonOps(await self._admin.open(node), self._fleet)

    async def close(self) -> None:
        """Drop all connections."""
        await self._admin.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        if op.f != "cordon":
            return await self._admin.invoke(op)
        cordoned = self._fleet.cordon(op.value["member"], op.value["disks"])
        return op.with_(type="ok", value={**op.value, "told": [each.hex for each in cordoned]})
