"""A former leader that is announced as one."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core import effects as fx
from node.core.elections import Elections
from node.driver.parts import NodeParts
from node.mutants import mutant


class ProudReplica(Elections):
    """Tells its listener that it leads what it led before the restart."""

    def _start_resigned(self) -> None:
        super()._start_resigned()
        self._state.out.emit(fx.LeadershipAcquired(self._state.epoch, self._state.log.start - 1))


@mutant(
    "resigned-announces",
    breaks=("S21", "S26"),
    source="KAFKA-17333: a replica that started as resigned announced its old leadership",
    scenario=Scenario(faults=(fault("kill", 1, 0.1, target="leader"),)),
)
def resigned_announces(parts: NodeParts) -> NodeParts:
    """A restarted leader, resigned by now, makes its controller active."""
    return replace(parts, core=replace(parts.core, elections=ProudReplica))
