"""Fault windows: what became of each fault, and when it may have been in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.history.ops import History, Interval


@dataclass(slots=True)
class FaultWindow:
    """One fault as the history tells it; times are the history's.

    ``start_ns`` is when its injection began, ``end_ns`` when its heal was done: between the two it
    may have been in force, outside it was not. ``end_ns`` is None when it was never healed.
    """

    id: Any
    nemesis: str
    start_ns: int
    outcome: str | None = None  # installed, skipped, failed; None = the injection never ended
    reason: str | None = None
    evidence: bool = False
    end_ns: int | None = None
    heal_evidence: bool = False

    @property
    def installed(self) -> bool:
        """Tell whether the fault took hold, as its nemesis saw with evidence."""
        return self.outcome == "installed" and self.evidence

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Tell whether it may have been in force at some time of a span."""
        return self.start_ns <= end_ns and (self.end_ns is None or self.end_ns >= start_ns)

    def to_json(self) -> dict[str, Any]:
        """The window as a JSON object."""
        return {
            "id": self.id,
            "nemesis": self.nemesis,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "outcome": self.outcome,
        }


def fault_windows(history: History) -> list[FaultWindow]:
    """All faults that the history tells of, in the order of their injection. O(n)."""
    windows: dict[Any, FaultWindow] = {}
    for op in history.nemesis():
        value = op.value
        if not isinstance(value, Mapping) or op.f not in ("inject", "heal"):
            continue
        id_ = value.get("id")
        window = windows.get(id_)
        if op.f == "inject" and window is None:
            windows[id_] = window = FaultWindow(id_, str(value.get("nemesis")), op.time_ns)
        if window is None:
            continue
        if op.f == "inject":
            _injected(window, value, op.error)
        elif "evidence" in value and op.error is None:
            window.end_ns, window.heal_evidence = op.time_ns, bool(value["evidence"])
    return list(windows.values())


def _injected(window: FaultWindow, value: Mapping[str, Any], error: str | None) -> None:
    if error is not None:
        window.outcome, window.reason = "failed", error
    if isinstance(value.get("outcome"), str):
        window.outcome = value["outcome"]
        window.evidence = bool(value.get("evidence"))
        window.reason = value.get("reason")


def in_force(windows: Iterable[FaultWindow]) -> list[FaultWindow]:
    """The windows of faults that may have done something: all but the skipped ones."""
    return [window for window in windows if window.outcome != "skipped"]


def during_a_fault(interval: Interval, windows: Sequence[FaultWindow]) -> bool:
    """Tell whether any fault may have been in force while the op was under way."""
    done = interval.completion or interval.invocation
    return any(w.overlaps(interval.invocation.time_ns, done.time_ns) for w in windows)
