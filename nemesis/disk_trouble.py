"""Disks that misbehave under a running node: full, failing, slow.

A node that cannot write must stop rather than go on with less than it promised (KAFKA-14644), so
the heal mends the disk and starts again what has stopped meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.hosts import DiskOrders, Disks
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import DISK, PROCESS, needs, needs_disks
from nemesis.common.restarts import restart
from nemesis.common.taking import take
from nemesis.common.targets import draw_target
from nemesis.common.turns import in_turn, is_live

_TARGETS = {"leader": 4, "follower": 2, "one": 1, "minority": 2, "majority": 1, "all": 1}
_OTHERS_S = 30.0  # for another fault to be done with a node
_WAIT_S = 0.6  # for a node to meet it
_DYING_S = 2.0  # for a real process to end of what it met; a JVM takes its time
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class _Undo:
    """The nodes whose disks we broke, with the pid each had, and what their disks had counted."""

    pids: Mapping[str, int | None]
    before: Mapping[str, Mapping[str, Any]]


class DiskTrouble:
    """The base of all; a kind says how to break a disk, to mend it, and what to see."""

    family = "disk"
    asks = (Disks,)
    is_fatal = True  # to a node that meets it

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw how bad it is."""
        del rng
        return {}

    async def shape(self, disks: DiskOrders, node: str, params: Mapping[str, Any] | None) -> None:
        """Break the disk of a node; None: mend it."""
        raise NotImplementedError

    def is_there(self, seen: Mapping[str, Any]) -> bool:
        """Tell whether a try of the disk shows it."""
        raise NotImplementedError

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why the run's disks cannot be broken; None when they can."""
        return needs(Disks, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The environment must have such disks, and the system start nodes again."""
        return needs_disks(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target and how bad it is."""
        return {"target": draw_target(rng, _TARGETS), **self.draw(rng)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Break the disks; evidence: what using them ourselves says, and what the nodes met."""
        environment = cluster.environment
        if not isinstance(environment, Disks) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        disks = environment.disks
        taken = await take(fault, cluster, DISK)
        nodes = taken.nodes
        if not nodes:
            return Injection(
                "skipped", reason=f"no {taken.target} is running whose disk is free and healthy"
            )
        before = {node: await disks.try_disk(node) for node in nodes}
        undo = _Undo(taken.pids, before)
        for node in nodes:
            await self.shape(disks, node, fault.params)
        tried = {node: await disks.try_disk(node) for node in nodes}
        await asyncio.sleep(_WAIT_S)
        seen = [
            {
                "saw": "disk",
                "node": node,
                **tried[node],
                "met": _met(tried[node], await disks.try_disk(node)),
                "process": cluster.environment.process(node).detail,
            }
            for node in nodes
        ]
        evidence = (taken.evidence(), *seen)
        whole = [str(e["node"]) for e in seen if not self.is_there(e)]
        if whole:
            reason = f"the disk of {', '.join(whole)} still works as if there were no fault"
            return Injection("failed", nodes, reason, evidence, undo)
        return Injection("installed", nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Mend the disks, start what has stopped; evidence: using the disks again."""
        undo, environment = injection.undo, cluster.environment
        if not isinstance(undo, _Undo) or not isinstance(environment, Disks):
            raise HarnessError(f"fault {fault.id} left no disk to heal")
        disks = environment.disks
        met = {node: _met(seen, await disks.try_disk(node)) for node, seen in undo.before.items()}
        for node in undo.pids:
            await self.shape(disks, node, None)
        tried = {node: await disks.try_disk(node) for node in undo.pids}
        broken = [node for node, seen in tried.items() if self.is_there(seen)]
        if broken:
            raise HarnessError(f"the disk of {', '.join(broken)} is still broken: {tried}")
        if self.is_fatal and is_live(cluster):
            await _last_moments([node for node, times in met.items() if times], cluster)
        down = [n for n in undo.pids if cluster.environment.process(n).pid is None]
        ours = [n for n in down if await self._may_start(fault, n, cluster)]
        seen = await restart({node: undo.pids[node] for node in ours}, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node) for node in ours])
        claims.release(cluster, fault.id, [(DISK, node) for node in undo.pids])
        return {**seen, "met": met, "disks": tried}

    async def _may_start(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        """Claim a node that is down, once no fault that ended it is still about to start it."""
        thing = (PROCESS, node)
        if not await claims.claim_when_free(cluster, fault.id, thing, timeout_s=_OTHERS_S):
            return False
        if cluster.environment.process(node).pid is None:
            return True
        claims.release(cluster, fault.id, [thing])
        return False


@nemeses.register("disk-full")
class DiskFull(DiskTrouble):
    """Fill the disks of nodes (ENOSPC); heal frees them and restarts nodes that stopped."""

    async def shape(self, disks: DiskOrders, node: str, params: Mapping[str, Any] | None) -> None:
        """Full."""
        await disks.fill(node, full=params is not None)

    def is_there(self, seen: Mapping[str, Any]) -> bool:
        """Tell whether the disk refuses to write more."""
        return seen["errno"] is not None


@nemeses.register("disk-io-error")
class DiskIoError(DiskTrouble):
    """Let reads, writes or fsyncs of nodes fail (EIO); heal repairs the disk and restarts nodes.

    What an fsync that failed had to make durable may be lost: whoever goes on after it is wrong.
    """

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw what fails."""
        return {"operation": rng.choice(("fsync", "write", "read"))}

    async def shape(self, disks: DiskOrders, node: str, params: Mapping[str, Any] | None) -> None:
        """Failing."""
        wanted = None if params is None else str(params.get("operation", "fsync"))
        await disks.fail_io(node, wanted)

    def is_there(self, seen: Mapping[str, Any]) -> bool:
        """Tell whether the disk refused the operation."""
        return seen["errno"] is not None


@nemeses.register("disk-slow-fsync")
class SlowFsync(DiskTrouble):
    """Slow every fsync of nodes down to 20 ms to 1 s, during which the node stands still."""

    is_fatal = False

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw how long."""
        return {"ms": rng.choice((20, 50, 100, 300, 1_000))}

    async def shape(self, disks: DiskOrders, node: str, params: Mapping[str, Any] | None) -> None:
        """Slow."""
        await disks.slow_fsync(node, 0 if params is None else int(params.get("ms", 100)))

    def is_there(self, seen: Mapping[str, Any]) -> bool:
        """Tell whether fsyncs were kept waiting."""
        return bool(seen["fsync_ms"] > 0)


async def _last_moments(nodes: Sequence[str], cluster: Cluster) -> None:
    """Give nodes that have met the fault time to end of it: one that ends later nobody starts."""
    deadline_s = asyncio.get_running_loop().time() + _DYING_S
    while any(cluster.environment.process(node).pid is not None for node in nodes):
        if asyncio.get_running_loop().time() >= deadline_s:
            return  # they live with it
        await asyncio.sleep(_POLL_S)


def _met(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Count how often a node was refused or delayed between two tries, without the second try."""
    refused = after["refused"] - before["refused"] - (after["errno"] is not None)
    return int(refused + after["slowed"] - before["slowed"])
