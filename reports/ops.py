"""A client op as two halves, and what counts are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.history.ops import Op

OUTCOMES = ("ok", "fail", "info")


@dataclass(frozen=True, slots=True)
class Span:
    """One client op: its invocation and, unless it was still open at the end, its completion."""

    invocation: Op
    completion: Op | None

    @property
    def outcome(self) -> str:
        """ok, fail or info; an op still open at the end is info."""
        return "info" if self.completion is None else self.completion.type

    @property
    def latency_ns(self) -> int | None:
        """Give the time from invocation to completion; None while open."""
        if self.completion is None:
            return None
        return max(0, self.completion.time_ns - self.invocation.time_ns)


def percentile(ordered: Sequence[int], percent: int) -> int | None:
    """The smallest value that at least ``percent`` of 100 are not above; None when empty."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, rank - 1)]
