"""A leader that was restarted and goes on where it was."""

from __future__ import annotations

from dataclasses import replace

from node.core import effects as fx
from node.core.progress import LeaderProgress
from node.core.replica import Replica
from node.core.roles import Leader
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class ResumingReplica(Replica):
    """Comes back as leader of the epoch that it led."""

    def _start_resigned(self) -> None:
        key, start = self.config.key, self._log_end
        role = Leader(
            epoch=self.epoch,
            voted=key,
            leader_id=key.id,
            leader_endpoint=self.advertised,
            epoch_start=start,
            progress=LeaderProgress(self._voters, key),
            check_quorum_deadline_ms=self._check_quorum_deadline(),
            begin_deadline_ms=self._now_ms,
            begin_pending=set(),
        )
        self._enter(role, None, "was leader before the restart")
        self._append_controls(self._opening(self._voters.ids))
        self._emit(fx.LeadershipAcquired(role.epoch, start), fx.FlushLog(self._log_end))


@mutant(
    "resumed-reign",
    breaks=("S26", "S7"),
    source="KAFKA-10527: a restarted node took up the leadership it had before",
    scenario=Scenario(faults=(fault("kill", 1, 0.1, target="leader"),)),
)
def resumed_reign(parts: NodeParts) -> NodeParts:
    """A leader that restarts goes on leading its old epoch, whose last records it may have lost."""
    return replace(parts, replica=ResumingReplica)
