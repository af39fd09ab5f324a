"""A leader that knows what is committed before it has committed anything."""

from __future__ import annotations

from dataclasses import replace

from node.core.replica import Replica
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class PrematureLeader(Replica):
    """Begins its reign with the high watermark that it had as a follower."""

    def _become_leader(self, grants: tuple[int, ...]) -> None:
        known = self._committed
        super()._become_leader(grants)
        role = self._role
        if known is not None and isinstance(role, Leader):
            role.high_watermark = known
            self._commit(known, **{"as": "leader"}, acks=[], voters=list(role.progress.voters))
            self._committed_more(role, known)


@mutant(
    "premature-high-watermark",
    breaks=("S14", "linearizability"),
    source="etcd #7331, redisraft #18 and #22 (commit index trusted before a commit of one's own)",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def premature_high_watermark(parts: NodeParts) -> NodeParts:
    """A new leader exposes what it knew to be committed before a record of its own epoch is."""
    return replace(parts, replica=PrematureLeader)
