"""A leader that begins its reign at offset 0."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core import effects as fx
from node.core.leader.replication import Replication
from node.core.messages import ControlRecord, ControlRecords
from node.driver.parts import NodeParts
from node.mutants import mutant


class ZeroLeader(Replication):
    """Forgets where its log ends when it writes control records."""

    def append_controls(self, records: tuple[ControlRecord, ...]) -> int:
        """Append one control batch with base offset 0."""
        self._state.out.emit(fx.AppendAsLeader(0, self._state.epoch, ControlRecords(records)))
        base = self._state.log.end
        self._state.log.epochs.assign(self._state.epoch, base)
        self._state.log.end = base + len(records)
        self._state.log.take_controls(base, records)
        return self._state.log.end - 1


@mutant(
    "control-batch-at-zero",
    breaks=("crash", "S12", "S7"),
    source="KAFKA-12331: the LeaderChange batch had base offset 0 instead of the log end",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def control_batch_at_zero(parts: NodeParts) -> NodeParts:
    """The batch that opens an epoch is written with base offset 0, wherever the log ends."""
    return replace(parts, core=replace(parts.core, replication=ZeroLeader))
