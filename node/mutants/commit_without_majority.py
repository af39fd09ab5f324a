"""A leader that commits without a majority."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.replication import Replication
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class LonelyLeader(Replication):
    """Counts nobody but itself."""

    def _quorum_end_offset(self, role: Leader) -> int:
        own = role.progress.local().end_offset
        return super()._quorum_end_offset(role) if own is None else own


@mutant(
    "commit-without-majority",
    breaks=("S13",),
    source="RedisLabs/raft #13 (a single node commits alone)",
    scenario=Scenario(faults=(fault("partition-isolate-leader", 1, 1),)),
)
def commit_without_majority(parts: NodeParts) -> NodeParts:
    """The leader's high watermark is its own flushed log end, whatever the voters have."""
    return replace(parts, core=replace(parts.core, replication=LonelyLeader))
