"""A disk is replaced by an empty one that says it is the old one: the same directory id.

So does a restore of ``meta.properties`` alone, or a format with the old id. The node has forgotten
its log and its vote, and nobody can tell: no quorum, static or dynamic, sees another replica. It
comes only where that loses nothing, as for every disk that forgets its vote.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from harness.contracts.nemesis import Cluster, Fault
from harness.registry import nemeses
from nemesis.disk_damage import VOTERS_MIN, DiskDamage, disks_of


@nemeses.register("disk-wipe-keep-id")
class DiskWipeKeepId(DiskDamage):
    """Kill a node and empty its disk but for ``meta.properties``; heal starts it.

    Only where a majority of the voters holds the same log without it, nobody could ask for its vote
    again, and it leads nothing.
    """

    voters_min = VOTERS_MIN
    targets: Mapping[str, int] = {"follower": 4, "observer": 1, "one": 1}
    forgets_votes = True

    async def is_spare(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        """And it leads no epoch: who has voted for it there may say so again, and it lead twice."""
        own = await disks_of(cluster).election(node)
        return (own is None or not own.leads) and await super().is_spare(fault, node, cluster)

    async def damage(self, cluster: Cluster, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Emptied, and still its own."""
        del rng
        return {**await disks_of(cluster).wipe(node, keep_id=True), "kept": "meta.properties"}
