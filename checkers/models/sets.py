"""A set with add, remove and read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


@models.register("set")
class Set:
    """A set with add, remove and read of all members; initially empty."""

    fs: frozenset[str] = frozenset(("add", "remove", "read"))
    initial: Any = ()

    def start(self, value: Any) -> State:
        """The members, given as a list; nil is the empty set."""
        return _members(() if value is None else value)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Reads count when they are ok; add and remove are legal whatever is there."""
        op, outcome = interval.invocation, interval.outcome
        match op.f:
            case "add" | "remove":
                return None if outcome == "fail" else Action(op.f, freeze(op.value), total=True)
            case "read":
                if outcome != "ok" or interval.completion is None:
                    return None
                value = interval.completion.value
                if value is None and conventions.nil_read == "no-constraint":
                    return None
                return Action("read", seen=self.start(value), observes=True)
            case _:
                raise ValueError(f"a set has no op {op.f!r}")

    def step(self, state: State, action: Action) -> State | Illegal:
        """Add and remove are idempotent; a read shows all members."""
        assert isinstance(state, frozenset)  # noqa: S101
        match action.f:
            case "add":
                return state | {action.value}
            case "remove":
                return state - {action.value}
            case _:
                return state if action.seen == state else ILLEGAL

    def useful(self, unknown: Sequence[Action], known: Sequence[Action]) -> Sequence[bool]:
        """An add of unknown outcome helps only if a read saw the member; a remove may always."""
        seen: set[Hashable] = set()
        for a in known:
            if a.f == "read" and isinstance(a.seen, frozenset):
                seen |= a.seen
        return [a.f == "remove" or a.value in seen for a in unknown]

    def describe(self, action: Action) -> str:
        """As in ``add 3``, ``read -> {1, 3}``."""
        if action.f == "read":
            return f"read -> {_show_members(action.seen)}"
        return f"{action.f} {show(action.value)}"

    def obstacle(self, state: State, action: Action) -> str:
        """Say what it saw and what there was."""
        return f"it saw {_show_members(action.seen)}, the set is {_show_members(state)}"


def _members(value: Any) -> frozenset[Hashable]:
    if not isinstance(value, list | tuple | set | frozenset):
        raise ValueError(f"value {value!r} is not a list of members")
    return frozenset(freeze(item) for item in value)


def _show_members(members: Hashable) -> str:
    assert isinstance(members, frozenset)  # noqa: S101
    return "{" + ", ".join(sorted(show(member) for member in members)) + "}"
