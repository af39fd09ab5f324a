"""Finds the calm times of a run: no fault but those of some families is at work, or just was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from harness.errors import UsageError
from harness.history.ops import History
from harness.registry import nemeses

CRASHES: Final = frozenset({"kill", "power", "lifecycle"})  # families that only end processes
GRACE_NS: Final = 1_000_000_000  # for what a healed link has held back to be over


@dataclass(frozen=True, slots=True)
class Calm:
    """The rest of a run; ``crashes`` are the times of the faults that do not count, in order.

    ``struck`` tells of each of those when it began, when it was healed, and whom it struck.
    """

    disturbed: tuple[tuple[int, float], ...]
    crashes: tuple[int, ...]
    struck: tuple[tuple[int, float, frozenset[str]], ...]

    @classmethod
    def of(cls, history: History, families: Collection[str] = CRASHES) -> Calm:
        """Tell when no fault was at work but those of ``families``."""
        disturbed: dict[object, tuple[int, float]] = {}
        crashes: list[int] = []
        struck: dict[object, tuple[int, float, frozenset[str]]] = {}
        for op in history.nemesis():
            value = op.value
            if op.f not in ("inject", "heal") or not isinstance(value, Mapping):
                continue
            if _family(str(value.get("nemesis"))) in families:
                crashes.append(op.time_ns)
                fault = value.get("id")
                began, _, nodes = struck.get(fault, (op.time_ns, inf, frozenset()))
                over = op.time_ns if op.f == "heal" and "evidence" in value else inf
                struck[fault] = began, over, nodes | frozenset(value.get("targets", ()))
                continue
            began, _ = disturbed.get(value.get("id"), (op.time_ns, inf))
            over = value.get("outcome") == "skipped" or (op.f == "heal" and "evidence" in value)
            disturbed[value.get("id")] = began, op.time_ns + GRACE_NS if over else inf
        return cls(tuple(sorted(disturbed.values())), tuple(crashes), tuple(struck.values()))

    def covers(self, begin_ns: int, end_ns: int) -> bool:
        """Tell whether all of that stretch was calm."""
        return all(end_ns < began or begin_ns > ended for began, ended in self.disturbed)

    def down(self, begin_ns: int, end_ns: int) -> frozenset[str]:
        """Name the nodes that were struck by a fault that does not count, in that stretch."""
        return frozenset[str]().union(
            *(nodes for began, over, nodes in self.struck if began <= end_ns and begin_ns <= over)
        )

    def crashed(self, begin_ns: int, end_ns: int) -> bool:
        """Tell whether a fault that does not count began or ended in that stretch."""
        return any(begin_ns < at_ns <= end_ns for at_ns in self.crashes)


def _family(name: str) -> str | None:
    """The family of a nemesis, None of one that is not there any more."""
    try:
        return str(nemeses.get(name).family)
    except UsageError:
        return None
