"""A replica that waits for a voter set to be committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.catalogue.scenario import Scenario, fault
from node.core.messages import ControlRecord
from node.core.own_log import OwnLog
from node.driver.parts import NodeParts
from node.mutants import mutant


class LateAdopter(OwnLog):
    """Uses control records when they are committed, not when they are in its log."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[tuple[int, ControlRecord]] = []

    def take_controls(self, base: int, controls: tuple[ControlRecord, ...]) -> None:
        """Keep control records for later."""
        self._waiting += enumerate(controls, base)

    def truncate(self, to: int, why: str) -> None:
        """Cut the log, and forget the records that are gone."""
        self._waiting = [each for each in self._waiting if each[0] < to]
        super().truncate(to, why)

    def commit(self, high_watermark: int, **trace: Any) -> None:
        """Expose the high watermark, then put what is committed in force."""
        super().commit(high_watermark, **trace)
        due = [each for each in self._waiting if each[0] < high_watermark]
        self._waiting = self._waiting[len(due) :]
        for offset, record in due:
            self.history.add(offset, record)
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
    return replace(parts, core=replace(parts.core, log=LateAdopter))
