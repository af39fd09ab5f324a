"""``peace``: what real nodes must do when all is healed and nothing is asked of them.

A run has such a time at its end where ``--settle`` says so. Processes share a machine with others,
so what one late message can explain is no violation here: a leader is replaced only where no node
was silent before, and of commits most must be late. In simulations ``liveness`` judges it, to the
millisecond.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from checkers.invariants.liveness import L2, L3, L6, L7, L8, L10, L12
from checkers.invariants.quorum import StepDown
from checkers.liveness.peace import (
    Window,
    follow,
    mostly_told_late,
    names_of,
    unsettled,
    window_of,
)
from harness.clock import NS_PER_S
from harness.contracts.checker import RunData
from harness.registry import checkers
from harness.verdict import CheckResult, Valid

NAME: Final = "peace"
JUDGED: Final = (L2, L3, StepDown.meaning, L6, L7, L8, L10, L12)
SILENT_NS: Final = NS_PER_S  # without any event of a node: it stood still; twice the idle interval


@checkers.register(NAME, needs=("events",), judges=JUDGED)
def peace(run: RunData) -> CheckResult:
    """One leader that stays, commits that all hear of, and nodes that do little, in time of peace.

    UNKNOWN when the run never came to that, which starts after its recovery.
    """
    window = window_of(run.history, "settle")
    if window is None:
        return CheckResult(NAME, Valid.UNKNOWN, reason="the run never came to its time of peace")
    silent = _silent(run, window)
    nodes = follow(run, window.end_ns, window.begin_ns)
    anomalies = [
        each
        for each in (*unsettled(nodes, run, window), *mostly_told_late(run, window))
        if not (silent and each.invariant == "L3")
    ]
    judged = {"L2": 1, "L4": len(run.voters), "L6": len(nodes), "L7": len(run.voters)}
    judged |= {"L8": len(nodes), "L10": len(run.observers), "L12": len(nodes)}
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked=judged | ({} if silent else {"L3": len(run.voters)}),
        stats={"silent": silent},
    )


def _silent(run: RunData, window: Window) -> list[str]:
    """Name the nodes that told nothing for so long that others may have given them up."""
    silent = []
    for name in names_of(run):
        times = [e["rx_ns"] for e in run.events.get(name, ())]
        times = [t for t in times if window.begin_ns - SILENT_NS <= t <= window.end_ns]
        bounds = [window.begin_ns - SILENT_NS, *times, window.end_ns]
        if any(after - before > SILENT_NS for before, after in pairwise(bounds)):
            silent.append(name)
    return silent
