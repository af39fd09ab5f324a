"""Crash points: one seed again and again, each time with the power failing at another disk change.

The seed is simulated once, and the changes of each node's disk are counted while its schedule is
played. Each change gives two crash points, just before it: one after which nothing survives that
was not fsynced, one after which a drawn part of it does. Of more points than there are to be
runs, those are taken that lie evenly among all.

Source: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), which enumerates the
states that a crash may leave; here the simulated disk makes them, and the checkers judge what the
cluster makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.contracts.nemesis import Fault
from harness.moments.trigger import CHANGE, EVENT, Match, Trigger
from harness.moments.words import told
from harness.registry import nemeses
from harness.run.player import INSTALLED, FaultReport
from harness.sessions.plan import Plan

KIND: Final = "power"
DOWN_MS: Final = 1_000  # how long a node is without power


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A power failure just before a change of a node's disk; the first change is number 1."""

    node: str
    number: int
    clean: bool  # whether nothing survives that was not fsynced

    @property
    def trigger(self) -> Trigger:
        """The moment."""
        return Trigger(Match(CHANGE), self.number, self.node)

    def fault(self, number: int) -> Fault:
        """The power failure, as a fault with that id."""
        params = {"target": EVENT, "mid_write": False, "clean": self.clean}
        return Fault(number, KIND, 0, DOWN_MS, params, trigger=self.trigger)

    def of(self, plan: Plan) -> Plan:
        """The plan with the power failure beside its faults."""
        number = 1 + max((fault.id for fault in plan.faults), default=-1)
        kinds = {**plan.nemeses, KIND: nemeses.get(KIND)()}
        spec = replace(plan.spec, nemeses=tuple(sorted(kinds)))
        faults = (*plan.faults, self.fault(number))
        return replace(plan, spec=spec, nemeses=kinds, faults=faults, asked_for=False)

    def struck(self, reports: Iterable[FaultReport]) -> bool:
        """Tell whether it took hold in a run."""
        fault = self.fault(0)
        return any(
            report.injection.outcome == INSTALLED
            and (report.fault.trigger, report.fault.params) == (fault.trigger, fault.params)
            for report in reports
        )

    def told(self) -> str:
        """Tell it in words."""
        left = "with a part of what was not fsynced"
        left = "with nothing that was not fsynced" if self.clean else left
        return f"no power {told(self.trigger)}, {left}"

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        return {"node": self.node, "change": self.number, "clean": self.clean}


def points(changes: Mapping[str, int]) -> list[CrashPoint]:
    """All crash points of a run with so many changes of each node's disk."""
    return [
        CrashPoint(node, number, clean)
        for clean in (True, False)
        for node, count in sorted(changes.items())
        for number in range(1, count + 1)
    ]


def spread(every: list[CrashPoint], most: int) -> list[CrashPoint]:
    """So many of the points at most, evenly: of each stretch of equal length the middle one."""
    if len(every) <= most:
        return list(every)
    return [every[(2 * n + 1) * len(every) // (2 * most)] for n in range(most)]
