"""The invariants that go by events, watched while these happen or run over a finished trace.

A simulation feeds its ``Monitor`` event by event and hands it on with all else that it leaves
behind; for a trace from files one is made, and fed in one pass, by the first checker that asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.invariants.catalogue import invariants_for
from checkers.invariants.clocks import CLOCK_RATE, kept_time
from checkers.invariants.monitor import Monitor
from checkers.invariants.trace import Whole
from harness.protocols import Fault, RunData
from harness.registry import watches
from harness.spec import RunSpec

NAME = "invariants"


@watches.register(NAME)
def watch(spec: RunSpec, faults: Sequence[Fault]) -> Monitor:
    """Judges S1 to S33, L4 and C1 to C12 as the events happen."""
    timed = all(fault.nemesis != CLOCK_RATE for fault in faults)
    return Monitor(invariants_for(spec.settings, timed=timed))


class _Newest:
    """The monitor of the run that is being judged: several checkers ask for it."""

    def __init__(self) -> None:
        self._run: RunData | None = None
        self._monitor = Monitor(())

    def of(self, run: RunData) -> Monitor:
        """The one that has seen all of the run's events; it must not be fed any more."""
        if run is not self._run:
            self._run, self._monitor = run, _monitor(run)
        return self._monitor


def _monitor(run: RunData) -> Monitor:
    watched = run.watches.get(NAME)
    if isinstance(watched, Monitor):
        return watched
    monitor = Monitor(invariants_for(run.spec.settings, timed=kept_time(run)))
    monitor.feed_whole(Whole.of(run.events))
    return monitor


watched = _Newest().of
