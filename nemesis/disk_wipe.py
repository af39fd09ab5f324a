"""A disk is lost and replaced: the node comes back empty, with another directory id.

To a dynamic quorum it is a stranger until the voter that it was is removed and it is added. In a
static quorum nobody notices, and committed records can be lost: KAFKA-14077. So there it is not
among ``all``, only for those who name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from harness.contracts.abilities import Members
from harness.contracts.hosts import Disks
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import DISK, PROCESS
from nemesis.common.restarts import restart
from nemesis.disk_damage import VOTERS_MIN, DiskDamage, Undo
from nemesis.membership import (
    VOTERS,
    claim_voters,
    members_available,
    needs_members_alone,
    take_place,
)


@nemeses.register("disk-wipe")
class DiskWipe(DiskDamage):
    """Kill a voter and empty its disk; heal starts it and makes it a voter again."""

    changes_voters = True

    def misfit(self, spec: RunSpec) -> str | None:
        """Voters in the log, and a majority of them without the one that is lost."""
        if spec.voters < VOTERS_MIN:
            return f"needs {VOTERS_MIN} voters: {spec.voters} have no majority when one is lost"
        return needs_members_alone(spec)

    def available(self, cluster: Cluster) -> str | None:
        """Tell why disks cannot be damaged, or the system cannot change its voters; else None."""
        return members_available(cluster) or super().available(cluster)

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Wiped, and formatted without any voter."""
        del rng
        environment, system = cluster.environment, cluster.system
        if not isinstance(environment, Disks) or not isinstance(system, Members):
            return None
        wiped = await environment.disks.wipe(node)
        return {**wiped, "directory": system.reformat(node)}

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Damage the disk as other faults do; no other fault changes the voters meanwhile."""
        if not await claim_voters(fault, cluster):
            return Injection("skipped", reason="another fault changes the voters")
        injection = await super().inject(fault, cluster)
        if injection.outcome == "skipped":
            disks = [(DISK, node) for node in cluster.system.nodes]
            claims.release(cluster, fault.id, [VOTERS, *disks])
        return injection

    async def start_again(self, fault: Fault, undo: Undo, cluster: Cluster) -> dict[str, Any]:
        """Start the node; its disk is nobody's copy until it is a voter again."""
        seen = await restart({undo.node: undo.pid}, cluster)
        claims.release(cluster, fault.id, [(PROCESS, undo.node)])
        return seen

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Start the node, and have it take the voter's place that it had; evidence: the voters."""
        seen = await super().heal(fault, injection, cluster)
        system = cluster.system
        keys = await system.voter_keys() if isinstance(system, Members) else None
        static = keys is not None and not any(keys.values())  # its voters have no directory ids
        added = {} if static else await take_place(injection.targets[0], cluster)
        claims.release(cluster, fault.id, [VOTERS, (DISK, injection.targets[0])])
        return {**seen, **added}
