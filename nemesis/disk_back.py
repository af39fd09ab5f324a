"""Disks that are not as the node left them: an older copy, without its vote, without snapshots.

A replica that forgets its vote may give it again, which no protocol survives; so these come only
where nobody is left who could ask for it: all other voters know the leader of that epoch, or are in
a later one. What is committed, a majority of the voters holds without the disk that forgets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from harness.contracts.abilities import Kill
from harness.contracts.hosts import Disks, Election
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError, NodeStartError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import DISK, PROCESS, needs
from nemesis.common.targets import aim
from nemesis.common.turns import in_turn
from nemesis.disk_damage import VOTERS_MIN, DiskDamage, Undo, disks_of, stored_log, until

_CLEANED_S = 4.0  # for a log to begin above 0
SNAPSHOT_SETTING = "metadata.log.max.record.bytes.between.snapshots"
RETENTION_SETTINGS = ("metadata.max.retention.bytes", "metadata.max.retention.ms")  # one will do


@nemeses.register("disk-old-copy")
class OldCopy(DiskDamage):
    """Kill a node and restore an older copy of its disk; heal starts it.

    Params: ``target``; ``age_ms`` of the copy.
    """

    voters_min = VOTERS_MIN
    targets: Mapping[str, int] = {"leader": 2, "follower": 2, "observer": 1, "one": 1}
    forgets_votes = True

    def __init__(self) -> None:
        self._copied: dict[str, Election | None] = {}  # what the copies say, by node

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target, and how old the copy is."""
        return {**super().params(rng), "age_ms": rng.choice((50, 300, 1_000, 3_000))}

    async def prepare(self, fault: Fault, node: str, cluster: Cluster) -> None:
        """Make the copy, and let it become old."""
        await disks_of(cluster).save_copy(node)
        self._copied[node] = await disks_of(cluster).election(node)
        await asyncio.sleep(int(fault.params.get("age_ms", 1_000)) / 1e3)

    async def is_spare(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        """And it leads no epoch that it would not know of, and could lead once more.

        Who has voted for it in that epoch may say so again, whatever its log has become.
        """
        own, copied = await disks_of(cluster).election(node), self._copied[node]
        if own is not None and own.leads and (copied is None or copied.epoch < own.epoch):
            return False
        return await super().is_spare(fault, node, cluster)

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Put the saved copy of the disk back."""
        del rng
        return await disks_of(cluster).restore_copy(node)


@nemeses.register("disk-lost-vote")
class LostVote(DiskDamage):
    """Kill a node and delete its quorum-state; heal starts it."""

    voters_min = VOTERS_MIN
    forgets_votes = True
    needs_copies = False  # the log is whole

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Remove epoch and vote from the disk."""
        del rng
        return await disks_of(cluster).lose_vote(node)


@nemeses.register("disk-lost-snapshot")
class LostSnapshot(DiskDamage):
    """Kill a node whose log begins above 0 and delete its snapshots; heal puts them back.

    A node that has neither the records nor a snapshot of them must not start (KAFKA-14240).
    """

    targets: Mapping[str, int] = {"leader": 1, "follower": 3, "observer": 2}

    def misfit(self, spec: RunSpec) -> str | None:
        """Logs begin above 0 only where snapshots are made, and old records go for them."""
        cut_off = any(name in spec.settings for name in RETENTION_SETTINGS)
        if SNAPSHOT_SETTING not in spec.settings or not cut_off:
            return (
                f"needs snapshots and logs that are cut off: --set {SNAPSHOT_SETTING}=BYTES "
                f"--set {RETENTION_SETTINGS[0]}=BYTES"
            )
        return needs(Disks, spec)

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Delete the snapshots and try to start the node; evidence: that it refuses."""
        system = cluster.system
        if not isinstance(system, Kill) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        target, choice = await aim(fault, cluster, PROCESS, DISK)
        node = choice.nodes[0]
        before = cluster.environment.process(node)
        mine = [(PROCESS, node), (DISK, node)]
        if before.pid is None or len(claims.claim_free(cluster, fault.id, mine)) < len(mine):
            claims.release(cluster, fault.id, mine)
            return Injection("skipped", reason=f"{node} is down, or its disk is broken already")

        async def is_cleaned() -> bool:
            return await log_start(node, cluster) > 0

        if not await until(is_cleaned, _CLEANED_S):
            claims.release(cluster, fault.id, mine)
            return Injection("skipped", reason=f"the log of {node} still begins at 0")
        await system.kill(node)
        lost = await disks_of(cluster).lose_snapshots(node)
        try:
            await system.start(node)
            refused = None
        except NodeStartError as error:
            refused = str(error)
        start = await log_start(node, cluster)
        seen = {"saw": "damage", "node": node, **lost, "log_start": start, "refused": refused}
        undo = Undo(node, before.pid, start)
        return Injection("installed", (node,), None, (choice.evidence(target), seen), undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Put the snapshots back and start the node; evidence: it answers."""
        undo = injection.undo
        if not isinstance(undo, Undo):
            raise HarnessError(f"fault {fault.id} left no snapshots to return")
        if cluster.environment.process(undo.node).pid is None:
            await disks_of(cluster).return_snapshots(undo.node)
        return await self.start_again(fault, undo, cluster)


async def log_start(node: str, cluster: Cluster) -> int:
    """Tell where a node's log begins on its disk; 0 when it is empty."""
    log = await stored_log(node, cluster)
    return log[0].base if log else 0
