"""A lock that one process holds at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


@models.register("mutex")
class Mutex:
    """A lock with acquire and release; initially free."""

    fs: frozenset[str] = frozenset(("acquire", "release"))
    initial: Any = False

    def start(self, value: Any) -> State:
        """Tell whether it is held."""
        return freeze(bool(value))

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """An op that failed did not happen."""
        if interval.invocation.f not in self.fs:
            raise ValueError(f"a mutex has no op {interval.invocation.f!r}")
        return None if interval.outcome == "fail" else Action(interval.invocation.f)

    def step(self, state: State, action: Action) -> State | Illegal:
        """Allow only a free lock to be acquired, and only a held one to be released."""
        held = state == freeze(True)
        if held is (action.f == "acquire"):
            return ILLEGAL
        return freeze(not held)

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """The op."""
        return action.f

    def obstacle(self, _: State, action: Action) -> str:
        """Held or free."""
        return "the lock is held" if action.f == "acquire" else "the lock is free"
