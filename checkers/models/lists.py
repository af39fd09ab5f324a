"""Lists and logs that are appended to."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


@models.register("list")
class ListAppend:
    """A list with append and read of all of it; initially empty."""

    fs: frozenset[str] = frozenset(("append", "read"))
    initial: Any = ()

    def start(self, value: Any) -> State:
        """The elements, given as a list; nil is the empty list."""
        return _elements(() if value is None else value)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Reads count when they are ok; an append that failed did not happen."""
        op, end = interval.invocation, interval.completion
        if op.f == "append":
            if interval.outcome == "fail":
                return None
            return Action("append", freeze(op.value), total=True)
        if op.f != "read":
            raise ValueError(f"a list has no op {op.f!r}")
        if interval.outcome != "ok" or end is None:
            return None
        if end.value is None and conventions.nil_read == "no-constraint":
            return None
        return Action("read", seen=self.start(end.value), observes=True)

    def step(self, state: State, action: Action) -> State | Illegal:
        """An append adds at the end; a read shows everything."""
        assert isinstance(state, tuple)  # noqa: S101
        if action.f == "append":
            return (*state, action.value)
        return state if action.seen == state else ILLEGAL

    def useful(self, unknown: Sequence[Action], known: Sequence[Action]) -> Sequence[bool]:
        """One of unknown outcome helps only if some read saw its element."""
        seen = {element for a in known if isinstance(a.seen, tuple) for element in a.seen}
        return [a.value in seen for a in unknown]

    def describe(self, action: Action) -> str:
        """As in ``append 3``, ``read -> [1, 3]``."""
        if action.f == "read":
            return f"read -> {_show_elements(action.seen)}"
        return f"append {show(action.value)}"

    def obstacle(self, state: State, action: Action) -> str:
        """Say what it saw and what there was."""
        return f"it saw {_show_elements(action.seen)}, the list is {_show_elements(state)}"


@models.register("log")
class Log(ListAppend):
    """An append-only log: an ok append returns its position, from 0; a read returns all records."""

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """As the list; an append that tells no position may have any."""
        action = super().action(interval, conventions)
        if action is None or action.f != "append" or interval.outcome != "ok":
            return action
        at = None if interval.completion is None else interval.completion.value
        if at is None:
            return action
        if isinstance(at, bool) or not isinstance(at, int) or at < 0:
            raise ValueError(f"an append came back with value {at!r}, want its position, from 0")
        return Action("append", action.value, seen=at)

    def step(self, state: State, action: Action) -> State | Illegal:
        """An append is right where the log ends there."""
        assert isinstance(state, tuple)  # noqa: S101
        if action.f == "append" and action.seen is not None and action.seen != len(state):
            return ILLEGAL
        return super().step(state, action)

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """Any may have taken up a position."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``append 3 at 0``."""
        where = "" if action.f == "read" or action.seen is None else f" at {action.seen}"
        return super().describe(action) + where

    def obstacle(self, state: State, action: Action) -> str:
        """Tell where the log ended, or what was in it."""
        if action.f == "append":
            assert isinstance(state, tuple)  # noqa: S101
            return f"it went to {action.seen}, the log ends at {len(state)}"
        return super().obstacle(state, action)


def _elements(value: Any) -> tuple[Hashable, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"value {value!r} is not a list")
    return tuple(freeze(item) for item in value)


def _show_elements(elements: Hashable) -> str:
    assert isinstance(elements, tuple)  # noqa: S101
    return show(("list", *elements))
