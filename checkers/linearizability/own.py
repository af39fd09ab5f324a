"""A model of the user's own, made of an initial state and a pure step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval, Op


@dataclass(frozen=True, slots=True)
class Asked:
    """An op as a model of your own sees it; ``seen`` is None where the answer is not ``known``."""

    f: str
    value: Any
    seen: Any
    known: bool


class OwnModel:
    """A model from an initial state and a pure step; the general search judges by it.

    ``step(state, asked)`` is the state after the op, or None where the object cannot have answered
    so. States and values are hashable. ``partition(op)`` is the key of an op (None: its ``key``),
    ``describe(asked)`` the op in a few words. Ops that failed did not happen.
    """

    def __init__(
        self,
        init: Hashable,
        step: Callable[[Any, Asked], Hashable | None],
        *,
        fs: Sequence[str],
        partition: Callable[[Op], Hashable] | None = None,
        describe: Callable[[Asked], str] | None = None,
    ) -> None:
        self.fs = frozenset(fs)
        self.initial: Any = init
        self._step = step
        self._partition = partition
        self._describe = describe

    def start(self, value: Any) -> State:
        """The state itself."""
        return self.initial if value is None else value  # type: ignore[no-any-return]

    def partition(self, op: Op) -> Hashable:
        """The object that an op is of."""
        return op.key if self._partition is None else self._partition(op)

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """The op as it is."""
        op, end = interval.invocation, interval.completion
        if interval.outcome == "fail":
            return None
        known = interval.outcome == "ok" and end is not None
        seen = end.value if known and end is not None else None
        return Action(op.f, freeze(op.value), (known, freeze(seen)))

    def step(self, state: State, action: Action) -> State | Illegal:
        """Call the user's own step, and take None for ILLEGAL."""
        after = self._step(state, _asked(action))
        return ILLEGAL if after is None else after

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """In your words, or f, what was asked and what was seen."""
        asked = _asked(action)
        if self._describe is not None:
            return self._describe(asked)
        return f"{asked.f} {show(asked.value)} -> {show(asked.seen) if asked.known else '?'}"

    def obstacle(self, state: State, _: Action) -> str:
        """The state."""
        return f"the state is {state!r}"


def _asked(action: Action) -> Asked:
    assert isinstance(action.seen, tuple)  # noqa: S101
    known, seen = action.seen
    return Asked(action.f, action.value, seen, known)
