"""A replica that waits for a voter set to be committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.core.messages import ControlRecord
from node.core.replica import Replica
from node.driver.parts import NodeParts
from node.mutants import mutant
from node.mutants.scenario import Scenario, fault


class LateAdopter(Replica):
    """Uses control records when they are committed, not when they are in its log."""

    def _init_leading(self) -> None:
        super()._init_leading()
        self._waiting: list[tuple[int, ControlRecord]] = []

    def _take_controls(self, base: int, controls: tuple[ControlRecord, ...]) -> None:
        self._waiting += enumerate(controls, base)

    def _truncate(self, to: int, why: str) -> None:
        self._waiting = [each for each in self._waiting if each[0] < to]
        super()._truncate(to, why)

    def _commit(self, high_watermark: int, **trace: Any) -> None:
        super()._commit(high_watermark, **trace)
        due = [each for each in self._waiting if each[0] < high_watermark]
        self._waiting = self._waiting[len(due) :]
        for offset, record in due:
            self._history.add(offset, record)
        if due:
            self._adopt_voters(revert=False)


@mutant(
    "late-membership",
    breaks=("S28", "S6", "S13"),
    source="etcd #11284 and #7625 (a change of members takes effect when applied)",
    scenario=Scenario(
        faults=(fault("membership", 1, 2, target="follower"),),
        rate_hz=30,
        settings={"krucible.quorum": "dynamic"},
    ),
)
def late_membership(parts: NodeParts) -> NodeParts:
    """A voter set is in force from its commit on, not from the moment it is in the log."""
    return replace(parts, replica=LateAdopter)
