"""``describe``: what leaders tell of their quorum while registers are written (KIP-836)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from harness.contracts.clients import Client
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, each_thread, mix, repeat
from harness.history.ops import Op
from harness.kafka import quorum as quorum_probe
from harness.kafka.quorum import QuorumView
from harness.kafka.route import Cluster, cluster_of
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.common.keys import Keys
from workloads.register import register_client

DESCRIBE = "describe-quorum"
OPS_PER_KEY = 200
TIMEOUT_S = 1.0
NO_LEADER = "no node says that it leads"


@workloads.register("describe", WorkloadTraits(prefixed=True, refusals=frozenset()))
def describe(spec: RunSpec) -> Workload:
    """Ask DescribeQuorum during writes; each answer must be true at some moment of the request."""
    voters = tuple(f"n{n}" for n in range(1, spec.voters + 1))
    keys = Keys("d")

    def client(system: System) -> Client:
        registers = register_client(system)
        return DescribeOps(cluster_of(system), voters, registers)

    def write(_: Random, n: int) -> Draft:
        return Draft("write", n + 1, keys.name(n // OPS_PER_KEY))

    return Workload(
        client=client,
        generator=mix(write, repeat(Draft(DESCRIBE))),
        final_generator=each_thread(Draft(DESCRIBE)),
        checkers=("describe", "consensus"),
        model="register",
    )


class DescribeOps:
    """Asks all voters of their quorum, and writes registers."""

    def __init__(self, cluster: Cluster, voters: tuple[str, ...], registers: Client) -> None:
        self._cluster = cluster
        self._voters = voters
        self._registers = registers

    async def open(self, node: str) -> DescribeOps:
        """A client of ``node``, as far as registers go."""
        return DescribeOps(self._cluster, self._voters, await self._registers.open(node))

    async def close(self) -> None:
        """Release the connection."""
        await self._registers.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op; ok with what each leader said: of two, one does not know better yet."""
        if op.f != DESCRIBE:
            return await self._registers.invoke(op)
        views = await asyncio.gather(*map(self._ask, self._voters))
        told = [_told(view) for view in views if view is not None]
        if not told:
            return op.with_(type="fail", error=NO_LEADER)
        return op.with_(type="ok", value=told)

    async def _ask(self, voter: str) -> QuorumView | None:
        address, network = self._cluster.addresses[voter], self._cluster.network
        return await quorum_probe.ask(address, network, timeout_s=TIMEOUT_S)


def _told(view: QuorumView) -> dict[str, Any]:
    return {
        "epoch": view.epoch,
        "leader": view.leader_id,
        "hwm": view.high_watermark,
        "voters": [[k.id, k.directory_id.hex if k.directory_id else None] for k in view.voters],
        "ends": [[id_, each.log_end] for id_, each in sorted(view.nodes.items())],
    }
