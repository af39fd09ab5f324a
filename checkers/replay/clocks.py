"""Dates events of nodes on the harness's clock, as well as arrival times can tell.

``rx_ns`` is when a line was read: after the event, by a delay that varies. ``ts`` is exact, on the
node's clock. The smallest ``rx_ns - ts`` of a process ties the two clocks together, off by no
more than the shortest delay that any of its lines had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from checkers.replay.trace import Event
from harness.contracts.checker import RunData
from harness.spec import SIM

Process = tuple[Any, Any]  # (node, incarnation)


CLOCK_RATE = "clock-rate"


def kept_time(run: RunData) -> bool:
    """Tell whether no fault, planned or played, lets the clock of a node run fast or slow.

    If one does, then a node's timeouts say nothing of what passed on the clock of the trace.
    """
    values = [op.value for op in run.history.nemesis()]
    played = any(isinstance(v, Mapping) and v.get("nemesis") == CLOCK_RATE for v in values)
    return not played and all(fault.nemesis != CLOCK_RATE for fault in run.faults)


class Clock(Protocol):
    """Tells when a node's event happened on the harness's clock."""

    def of(self, event: Event) -> int | None:
        """Tell when it happened; None when that is not known."""
        ...


class OneTime:
    """The clock of a simulation, which all have in common."""

    def of(self, event: Event) -> int | None:
        """The event's own time."""
        time: int = event["ts"]
        return time


def clock_of(run: RunData) -> Clock:
    """The clock for the events of a run."""
    return OneTime() if run.spec.env == SIM else HarnessTime(run.events)


class HarnessTime:
    """Translates the times of all events of a run."""

    def __init__(self, events: Mapping[str, Iterable[Event]]) -> None:
        self._shift: dict[Process, int] = {}
        for of_node in events.values():
            for event in of_node:
                ts, rx = event.get("ts"), event.get("rx_ns")
                if isinstance(ts, int) and isinstance(rx, int):
                    process = event.get("node"), event.get("inc")
                    known = self._shift.get(process)
                    if known is None or rx - ts < known:
                        self._shift[process] = rx - ts

    def of(self, event: Event) -> int | None:
        """Tell when it happened; None when the event or its process never arrived with a time."""
        ts, shift = event.get("ts"), self._shift.get((event.get("node"), event.get("inc")))
        return ts + shift if isinstance(ts, int) and shift is not None else None
