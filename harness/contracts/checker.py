"""A checker judges what a run left behind; a watch judges a simulation while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.nemesis import Fault
from harness.history.ops import History, Op
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything one run left behind: the input of every checker. Nothing in it is live."""

    spec: RunSpec
    history: History
    events: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    logs: Mapping[str, tuple[LogBatch, ...]] = field(default_factory=dict)
    snapshots: Mapping[str, tuple[LogSnapshot, ...]] = field(default_factory=dict)  # oldest first
    output: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # stdout+stderr lines
    faults: tuple[Fault, ...] = ()
    voters: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    watches: Mapping[str, Watch] = field(default_factory=dict, compare=False, repr=False)


class Watch(Protocol):
    """Judges the events of a simulation as they happen; checkers go by what it has found."""

    def feed(self, event: Mapping[str, Any]) -> Sequence[Anomaly]:
        """Tell what an event breaks; called once for each, in the order in which they happen."""
        ...

    def op(self, op: Op) -> Sequence[Anomaly]:
        """Tell what an op breaks, when it is invoked or answered; called as ``feed`` is."""
        ...


Checker = Callable[[RunData], CheckResult]
