"""A leader that begins its reign at offset 0."""

from __future__ import annotations

from dataclasses import replace

from node.core import effects as fx
from node.core.messages import ControlRecord, ControlRecords
from node.core.replica import Replica
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class ZeroLeader(Replica):
    """Forgets where its log ends when it writes control records."""

    def _append_controls(self, records: tuple[ControlRecord, ...]) -> int:
        self._emit(fx.AppendAsLeader(0, self.epoch, ControlRecords(records)))
        base = self._log_end
        self._epochs.assign(self.epoch, base)
        self._log_end = base + len(records)
        self._take_controls(base, records)
        return self._log_end - 1


@mutant(
    "control-batch-at-zero",
    breaks=("crash", "S12", "S7"),
    source="KAFKA-12331: the LeaderChange batch had base offset 0 instead of the log end",
    scenario=Scenario(faults=(fault("kill", 1, 1, target="leader"),)),
)
def control_batch_at_zero(parts: NodeParts) -> NodeParts:
    """The batch that opens an epoch is written with base offset 0, wherever the log ends."""
    return replace(parts, replica=ZeroLeader)
