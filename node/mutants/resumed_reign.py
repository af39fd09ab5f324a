"""A leader that was restarted and goes on where it was."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core.elections import Elections
from node.driver.parts import NodeParts
from node.mutants import mutant


class ResumingReplica(Elections):
    """Comes back as leader of the epoch that it led."""

    def _start_resigned(self) -> None:
        role = self._leadership.new_role()
        self._roles.enter(role, None, "was leader before the restart")
        self._leadership.open_epoch(role, self._state.log.voters.ids)


@mutant(
    "resumed-reign",
    breaks=("S26", "S7"),
    source="KAFKA-10527: a restarted node took up the leadership it had before",
    scenario=Scenario(faults=(fault("kill", 1, 0.1, target="leader"),)),
)
def resumed_reign(parts: NodeParts) -> NodeParts:
    """A leader that restarts goes on leading its old epoch, whose last records it may have lost."""
    return replace(parts, core=replace(parts.core, elections=ResumingReplica))
