"""A leader that counts what it has not flushed."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.inputs import Propose
from node.core.leader.replication import Replication
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant


class UnflushedLeader(Replication):
    """Counts in the majority with all that it has written."""

    def local_quorum_end(self) -> int:
        """Say where the log ends."""
        return self._state.log.end

    def on_propose(self, proposal: Propose) -> None:
        """Append, and count at once."""
        super().on_propose(proposal)
        role = self._state.role
        if isinstance(role, Leader):
            role.progress.local().end_offset = self.local_quorum_end()
            self.advance_high_watermark(role)


@mutant(
    "unflushed-leader",
    breaks=("S13", "S16", "S9"),
    source="etcd #14143 (acknowledged with data that is not fsynced)",
    scenario=Scenario(voters=1, faults=(fault("kill", 1, 1, target="leader"),)),
)
def unflushed_leader(parts: NodeParts) -> NodeParts:
    """The leader counts itself up to its log end, flushed or not."""
    return replace(parts, core=replace(parts.core, replication=UnflushedLeader))
