"""ISRs changed by compare-and-set on the partition epoch (KIP-497)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


@models.register("isr")
class Isr:
    """An ISR changed by compare-and-set: ``alter [epoch, [members]]``, and reads of the same.

    The state is (epoch, members). An alter that is ok found its epoch and leaves the next one; one
    that failed found another where the conventions say that a failed cas is an observation.
    """

    fs: frozenset[str] = frozenset(("alter", "read"))
    initial: Any = (0, ())

    def start(self, value: Any) -> State:
        """(epoch, members); nil is epoch 0 and nobody."""
        return _isr((0, ()) if value is None else value)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Turn an alter, or a read, into what it says of the epoch."""
        op, end = interval.invocation, interval.completion
        if op.f == "read":
            if interval.outcome != "ok" or end is None:
                return None
            return Action("read", seen=_isr(end.value), observes=True)
        if op.f != "alter":
            raise ValueError(f"an ISR has no op {op.f!r}")
        epoch, members = _isr(op.value)
        if interval.outcome != "fail":
            return Action("alter", members, seen=epoch)
        if conventions.failed_cas == "did-not-happen":
            return None
        return Action("refused", seen=epoch, observes=True)

    def step(self, state: State, action: Action) -> State | Illegal:
        """Allow a change of the ISR only with the right epoch, and step to the next epoch."""
        assert isinstance(state, tuple)  # noqa: S101
        match action.f:
            case "alter":
                return (state[0] + 1, action.value) if action.seen == state[0] else ILLEGAL
            case "refused":
                return ILLEGAL if action.seen == state[0] else state
            case _:
                return state if action.seen == state else ILLEGAL

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``alter epoch 3 to [1, 2]``."""
        match action.f:
            case "alter":
                assert isinstance(action.value, tuple)  # noqa: S101
                return f"alter epoch {action.seen} to {list(action.value)}"
            case "refused":
                return f"alter of epoch {action.seen} that was refused"
            case _:
                return f"read -> {_show_isr(action.seen)}"

    def obstacle(self, state: State, action: Action) -> str:
        """Say what it needed and what there was."""
        wanted = _show_isr(action.seen) if action.f == "read" else f"epoch {action.seen}"
        return f"it goes with {wanted}, the ISR is {_show_isr(state)}"


def _isr(value: Any) -> tuple[int, tuple[Hashable, ...]]:
    match value:
        case [int(epoch), [*members]]:
            return epoch, tuple(sorted((freeze(m) for m in members), key=repr))
        case _:
            raise ValueError(f"value {value!r}, want [epoch, [members]]")


def _show_isr(state: Hashable) -> str:
    assert isinstance(state, tuple)  # noqa: S101
    return f"epoch {state[0]} with {list(state[1])}"
