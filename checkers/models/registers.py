"""Registers: one value that is read, written, and changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models

_PAIR = 2


@models.register("register")
class Register:
    """One value that reads and writes go to; initially nil."""

    fs: frozenset[str] = frozenset(("read", "write"))
    initial: Any = None

    def start(self, value: Any) -> State:
        """The value itself."""
        return freeze(value)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Reads count when they are ok; a write that failed did not happen."""
        op, outcome = interval.invocation, interval.outcome
        if op.f == "write":
            return (
                None
                if outcome == "fail"
                else Action("write", freeze(op.value), total=True, blind=True)
            )
        if op.f == "read":
            return _read(interval, conventions)
        raise ValueError(f"a register has no op {op.f!r}")

    def step(self, state: State, action: Action) -> State | Illegal:
        """A write leaves its value; a read shows the state."""
        if action.f == "write":
            return action.value
        return state if action.seen == state else ILLEGAL

    def useful(self, unknown: Sequence[Action], known: Sequence[Action]) -> Sequence[bool]:
        """A write of unknown outcome helps only if something saw or compared its value."""
        everything = [*unknown, *known]
        if any(a.f == "not" for a in everything):
            return [True] * len(unknown)  # any other value explains "not this one"
        wanted = {a.seen for a in everything if a.f in ("read", "cas")}
        return [(a.value in wanted) for a in unknown]

    def describe(self, action: Action) -> str:
        """As in ``write 3``, ``read -> 3``, ``cas 1 to 2``."""
        match action.f:
            case "read":
                return f"read -> {show(action.seen)}"
            case "cas":
                return f"cas {show(action.seen)} to {show(action.value)}"
            case "not":
                return f"cas from {show(action.seen)} that compared false"
            case _:
                return f"write {show(action.value)}"

    def obstacle(self, state: State, action: Action) -> str:
        """Say what it needed and what there was."""
        if action.f == "not":
            return f"it needs any value but {show(action.seen)}"
        return f"it needs {show(action.seen)}, the value is {show(state)}"


@models.register("cas-register")
class CasRegister(Register):
    """A register with compare-and-set: ``cas [old new]``; initially nil."""

    fs: frozenset[str] = frozenset(("read", "write", "cas"))

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """As the register; a failed cas counts where the conventions say it compared false."""
        op = interval.invocation
        if op.f != "cas":
            return super().action(interval, conventions)
        pair = op.value
        if not isinstance(pair, list | tuple) or len(pair) != _PAIR:
            raise ValueError(f"a cas has the value {pair!r}, want [old, new]")
        old, new = freeze(pair[0]), freeze(pair[1])
        if interval.outcome == "fail":
            if conventions.failed_cas == "did-not-happen":
                return None
            return Action("not", seen=old, observes=True)
        if old == new:  # it changes nothing
            ok = interval.outcome == "ok"
            return Action("cas", new, seen=old, observes=True) if ok else None
        return Action("cas", new, seen=old)

    def step(self, state: State, action: Action) -> State | Illegal:
        """A cas needs its old value and leaves the new one."""
        match action.f:
            case "write":
                return action.value
            case "cas":
                return action.value if action.seen == state else ILLEGAL
            case "not":
                return ILLEGAL if action.seen == state else state
            case _:
                return state if action.seen == state else ILLEGAL


def _read(interval: Interval, conventions: Conventions) -> Action | None:
    if interval.outcome != "ok" or interval.completion is None:
        return None  # nobody saw anything
    value = interval.completion.value
    if value is None and conventions.nil_read == "no-constraint":
        return None
    return Action("read", seen=freeze(value), observes=True)
