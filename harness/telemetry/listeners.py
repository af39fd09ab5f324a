"""``together`` lets several listeners hear of one run; a single one is asked directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts.nemesis import Fault
from harness.history.ops import Op
from harness.run.recorder import Progress


class Several:
    """A ``Progress`` that tells others, in their order."""

    def __init__(self, listeners: Sequence[Progress]) -> None:
        self._listeners = tuple(listeners)

    def on_op(self, op: Op) -> None:
        """See ``Progress``."""
        for each in self._listeners:
            each.on_op(op)

    def on_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """See ``Progress``."""
        for each in self._listeners:
            each.on_fault(fault, stage, detail)

    def on_phase(self, phase: str) -> None:
        """See ``Progress``."""
        for each in self._listeners:
            each.on_phase(phase)


def together(first: Progress, *others: Progress | None) -> Progress:
    """The listeners that are there as one; ``first`` itself when it is alone."""
    there = [first, *(each for each in others if each is not None)]
    return first if len(there) == 1 else Several(there)
