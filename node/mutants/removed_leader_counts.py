"""A leader that counts itself though it is no voter any more."""

from __future__ import annotations

from dataclasses import replace

from node.core.replica import Replica
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class RetiredLeader(Replica):
    """Is one of the majority, voter or not."""

    def _quorum_end_offset(self, role: Leader) -> int:
        own = role.progress.local().end_offset
        if self._is_voter or own is None:
            return super()._quorum_end_offset(role)
        ends = sorted((own, *role.progress.end_offsets_descending()), reverse=True)
        return ends[self._voters.majority - 1]


@mutant(
    "removed-leader-counts",
    breaks=("S13", "S30"),
    source="RedisLabs/raft #13 (a leader that is no voter commits what it alone has)",
    scenario=Scenario(
        seeds=(2, 1, 3, 4),
        voters=5,
        faults=(
            fault("slow-links", 1, 4, target="minority", way="both", delay_ms=250, jitter_ms=0),
            fault("membership", 2, 2, target="leader"),
        ),
        rate_hz=40,
        concurrency=6,
        settings={"krucible.quorum": "dynamic"},
    ),
)
def removed_leader_counts(parts: NodeParts) -> NodeParts:
    """A leader that has removed itself goes on to count itself towards the majority."""
    return replace(parts, replica=RetiredLeader)
