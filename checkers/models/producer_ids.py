"""Blocks of producer ids, each above all before (KIP-730)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


@models.register("producer-ids")
class ProducerIds:
    """Blocks of ids, each above all that were given before: ``allocate``, ok with [first, count].

    Gaps are right: a block whose answer was lost was given all the same.
    """

    fs: frozenset[str] = frozenset(("allocate",))
    initial: Any = 0

    def start(self, value: Any) -> State:
        """The lowest id that was never given."""
        return int(value or 0)

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """Turn an answered request for a block into an action; None when it was not answered."""
        op, end = interval.invocation, interval.completion
        if op.f not in self.fs:
            raise ValueError(f"producer ids have no op {op.f!r}")
        if interval.outcome != "ok" or end is None:
            return None
        match end.value:
            case [int(first), int(count)] if first >= 0 and count > 0:
                return Action("allocate", (first, count))
            case _:
                raise ValueError(f"value {end.value!r}, want [first, count]")

    def step(self, state: State, action: Action) -> State | Illegal:
        """A block begins at or above what was never given."""
        assert isinstance(state, int) and isinstance(action.value, tuple)  # noqa: S101, PT018
        first, count = action.value
        return first + count if first >= state else ILLEGAL

    def rank(self, action: Action) -> int:
        """Blocks have one order: that of their ids."""
        assert isinstance(action.value, tuple)  # noqa: S101
        return int(action.value[0])

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """Call every action of unknown outcome useless: none can explain another."""
        return [False] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``ids 0 to 999``."""
        assert isinstance(action.value, tuple)  # noqa: S101
        first, count = action.value
        return f"ids {first} to {first + count - 1}"

    def obstacle(self, state: State, _: Action) -> str:
        """Tell how far ids were given."""
        return f"ids below {state} had been given"
