"""Damage to the disk of a node that is down: a torn or lost tail, a flipped bit.

The node must notice at its start, and cut its log or refuse it. What is committed survives as long
as enough other disks hold it, so a disk is damaged only where they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.abilities import Kill, StoresLogs
from harness.contracts.evidence import LogBatch
from harness.contracts.hosts import DiskOrders, Disks, Mirrors
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.evidence import can_answer
from nemesis.common.hosts import DISK, PROCESS, needs, needs_disks
from nemesis.common.restarts import restart
from nemesis.common.targets import alive_and_free, choose_or_one, draw_target, fault_rng
from nemesis.common.turns import in_turn, is_live

_CAUGHT_UP_S = 10.0
_COPIED_S = 4.0
_POLL_S = 0.05
VOTERS_MIN = 3  # two of them can have a majority without the third
_NO_COPIES = "the other voters that have all records of {} are no majority"


@dataclass(frozen=True, slots=True)
class Undo:
    """The node whose disk we damaged, with the pid it had, and where its log ended."""

    node: str
    pid: int | None
    log_end: int


class DiskDamage:
    """The base of both; a kind does the damage."""

    family = "disk"
    asks = (Disks,)
    targets: Mapping[str, int] = {"leader": 2, "follower": 2, "one": 1}
    voters_min = 1  # more for damage that takes what is committed, and so only what others hold
    needs_copies = True
    forgets_votes = False  # of its own: so no voter may be left that could ask for them again

    async def prepare(self, fault: Fault, node: str, cluster: Cluster) -> None:
        """Tell what comes before the node is killed."""

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Damage the disk; what was done, or None when there is nothing to damage."""
        raise NotImplementedError

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why disks cannot be damaged, or no majority would survive; None when all is well."""
        if spec.voters < self.voters_min:
            return (
                f"needs {self.voters_min} voters: {spec.voters} have no majority when one is lost"
            )
        return needs(Disks, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The environment must have such disks; the system must show logs and start nodes."""
        if not isinstance(cluster.system, StoresLogs):
            return f"system {cluster.system.name!r} does not show the logs of its nodes"
        return needs_disks(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target."""
        return {"target": draw_target(rng, self.targets)}

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Kill one node and damage its disk; evidence: the bytes that are not what they were."""
        system, rng = cluster.system, fault_rng(fault)
        if not isinstance(system, Kill) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        target = str(fault.params.get("target", "one"))
        fits = alive_and_free(fault, cluster, PROCESS, DISK)
        choice = await choose_or_one(target, rng, cluster, fits)
        node = choice.nodes[0]
        before = cluster.environment.process(node)
        mine = [(PROCESS, node), (DISK, node)]
        if before.pid is None or len(claims.claim_free(cluster, fault.id, mine)) < len(mine):
            claims.release(cluster, fault.id, mine)
            return Injection("skipped", reason=f"{node} is down, or its disk is broken already")
        await self.prepare(fault, node, cluster)
        others = [(PROCESS, v) for v in cluster.system.voters if v != node and is_live(cluster)]

        async def is_spare() -> bool:
            # none is to go while we wait for it; one that is down is somebody's to start
            up = [thing for thing in others if can_answer(thing[1], cluster)]
            claims.claim_free(cluster, fault.id, up)
            return await self.is_spare(fault, node, cluster)

        try:
            if not await until(is_spare, _COPIED_S):
                claims.release(cluster, fault.id, mine)
                return Injection("skipped", reason=_NO_COPIES.format(node))
            await system.kill(node)
            undo = Undo(node, before.pid, await log_end(node, cluster))
            if not await until(is_spare, _COPIED_S):
                await self.start_again(fault, undo, cluster)  # it took more before it was gone
                return Injection("skipped", reason=_NO_COPIES.format(node))
        finally:
            claims.release(cluster, fault.id, others)
        done = await self.damage(cluster, node, rng)
        if done is None:
            await self.start_again(fault, undo, cluster)
            return Injection("skipped", reason=f"there is nothing to damage on the disk of {node}")
        seen = {
            "saw": "damage",
            "node": node,
            **done,
            "log_end": undo.log_end,
            "readable_end": await log_end(node, cluster),
            "copies": await _copies(fault, node, cluster),
        }
        return Injection("installed", (node,), None, (choice.evidence(target), seen), undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Start the node; evidence: it answers, and its log is as long again as it was."""
        undo = injection.undo
        if not isinstance(undo, Undo):
            raise HarnessError(f"fault {fault.id} left no damaged disk to heal")
        found = await log_end(undo.node, cluster)
        seen = await self.start_again(fault, undo, cluster)
        return {
            **seen,
            "was_log_end": undo.log_end,
            "found_log_end": found,
            "log_end": await _await_log(undo, cluster),
        }

    async def is_spare(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        """Tell whether nothing is lost to the cluster with what this disk will lose."""
        enough = len(cluster.system.voters) // 2
        if self.needs_copies and await _copies(fault, node, cluster) <= enough:
            return False
        return not self.forgets_votes or await votes_are_settled(node, cluster)

    async def start_again(self, fault: Fault, undo: Undo, cluster: Cluster) -> dict[str, Any]:
        """Start the node and let go of it; evidence as ``restart``."""
        seen = await restart({undo.node: undo.pid}, cluster)
        claims.release(cluster, fault.id, [(PROCESS, undo.node), (DISK, undo.node)])
        return seen


@nemeses.register("disk-torn-tail")
class TornTail(DiskDamage):
    """Kill a node, cut un-fsynced bytes off its log and leave half a write; heal starts it.

    Only what a file system may do: what was fsynced stays.
    """

    targets: Mapping[str, int] = {"leader": 2, "follower": 2, "observer": 2, "one": 1}
    needs_copies = False  # nothing that anybody counts on is lost

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Torn."""
        return await disks_of(cluster).tear_tail(node, rng)


@nemeses.register("disk-bit-flip")
class BitFlip(DiskDamage):
    """Kill a node and flip a bit of its log that a CRC covers; heal starts it.

    Only where a majority of the voters holds the same log without it.
    """

    voters_min = VOTERS_MIN

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Flipped."""
        return await disks_of(cluster).flip_bit(node, rng)


@nemeses.register("disk-lost-tail")
class LostTail(DiskDamage):
    """Kill a node and cut fsynced records off the end of its log; heal starts it.

    Only where a majority of the voters holds the same log without it.
    """

    voters_min = VOTERS_MIN

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Cut."""
        return await disks_of(cluster).cut_tail(node, rng)


def disks_of(cluster: Cluster) -> DiskOrders:
    """The disks of a cluster's hosts; raises HarnessError."""
    environment = cluster.environment
    if not isinstance(environment, Disks):
        raise HarnessError(f"environment {environment.name!r} cannot break the disks of its nodes")
    return environment.disks


async def stored_logs(nodes: Sequence[str], cluster: Cluster) -> list[Sequence[LogBatch]]:
    """The logs of nodes as they lie on their disks now, wherever these are."""
    system = cluster.system
    if isinstance(cluster.environment, Mirrors):
        await asyncio.gather(*map(cluster.environment.refresh, nodes))
    return [system.stored_log(n) if isinstance(system, StoresLogs) else () for n in nodes]


async def stored_log(node: str, cluster: Cluster) -> Sequence[LogBatch]:
    """The log of one of them."""
    return (await stored_logs([node], cluster))[0]


async def log_end(node: str, cluster: Cluster) -> int:
    """Give the end of the readable part of a node's log on its disk; 0 when it is empty."""
    log = await stored_log(node, cluster)
    return log[-1].last + 1 if log else 0


async def _copies(fault: Fault, node: str, cluster: Cluster) -> int:
    """Tell how many other voters hold all of a node's log.

    A disk that another fault has does not count: what it holds may be gone before the node is back,
    as that of a voter who was removed, and is to come back empty.
    """
    log = await stored_log(node, cluster)
    if not log:
        return 0
    voters = [v for v in cluster.system.voters if v != node]
    kept = [v for v in voters if claims.is_free(cluster, fault.id, (DISK, v))]
    others = await stored_logs(kept, cluster)
    last = log[-1]
    return sum(any(b.last == last.last and b.epoch == last.epoch for b in o) for o in others)


async def votes_are_settled(node: str, cluster: Cluster) -> bool:
    """Tell whether no other voter can be a candidate any more in an epoch that a node has voted in.

    So it is where they all are in a later epoch, or know the leader of this one.
    """
    disks = disks_of(cluster)
    own = await disks.election(node)
    if own is None or node not in cluster.system.voters:
        return True
    seen = [await disks.election(other) for other in cluster.system.voters if other != node]
    return all(e is not None and (e.epoch, e.leader is not None) > (own.epoch, False) for e in seen)


async def _await_log(undo: Undo, cluster: Cluster) -> int:
    """Wait until the node has again as much as it had; one that has not is no failure of ours."""

    async def has_all() -> bool:
        return await log_end(undo.node, cluster) >= undo.log_end

    await until(has_all, _CAUGHT_UP_S)
    return await log_end(undo.node, cluster)


async def until(holds: Callable[[], Awaitable[bool]], timeout_s: float) -> bool:
    """Wait until something holds; False when it did not in time."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            began_s = loop.time()
            while not await holds():  # files tell nobody that they grow; reading may take long
                await asyncio.sleep(max(_POLL_S, 3 * (loop.time() - began_s)))
                began_s = loop.time()
    except TimeoutError:
        return False
    return True
