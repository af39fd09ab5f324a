"""A leader that knows what is committed before it has committed anything."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.leader.leadership import Leadership
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class PrematureLeader(Leadership):
    """Begins its reign with the high watermark that it had as a follower."""

    def begin(self, grants: tuple[int, ...]) -> None:
        """Lead, and expose what was known to be committed."""
        known = self._state.log.committed
        super().begin(grants)
        role = self._state.role
        if known is not None and isinstance(role, Leader):
            role.high_watermark = known
            voters = list(role.progress.voters)
            self._state.log.commit(known, **{"as": "leader"}, acks=[], voters=voters)
            for tell in self._state.events.committed:
                tell(role, known)


@mutant(
    "premature-high-watermark",
    breaks=("S14", "linearizability"),
    source="etcd #7331, redisraft #18 and #22 (commit index trusted before a commit of one's own)",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def premature_high_watermark(parts: NodeParts) -> NodeParts:
    """A new leader exposes what it knew to be committed before a record of its own epoch is."""
    return replace(parts, core=replace(parts.core, leadership=PrematureLeader))
