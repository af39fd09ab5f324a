"""Models drawn at random: whatever the search assumes of a model, some of them try."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State
from harness.history.formats import Conventions
from harness.history.ops import Interval

STATES = 4


class Automaton:
    """A table of steps: ``f`` is a row, which has the next state, or None where it is illegal.

    What an action promises (observes, total, blind) is read off its row.
    """

    def __init__(self, rng: Random, rows: int) -> None:
        self.table = {f"f{n}": _row(rng) for n in range(rows)}
        self.fs = frozenset(self.table)
        self.initial: Any = 0

    def start(self, value: Any) -> State:
        """The state itself."""
        return int(value)

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """The row of the op; an op that failed did not happen."""
        f = interval.invocation.f
        row = self.table[f]
        if interval.outcome == "fail":
            return None
        observes = all(to is None or to == state for state, to in enumerate(row))
        total = None not in row
        return Action(f, observes=observes, total=total, blind=total and len(set(row)) == 1)

    def step(self, state: State, action: Action) -> State | Illegal:
        """Look it up."""
        assert isinstance(state, int)
        to = self.table[action.f][state]
        return ILLEGAL if to is None else to

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """The name of the row."""
        return action.f

    def obstacle(self, state: State, action: Action) -> str:
        """The state."""
        return f"{action.f} is illegal in {state}"


def _row(rng: Random) -> list[int | None]:
    match rng.randrange(4):
        case 0:  # an observer
            return [n if rng.random() < 0.4 else None for n in range(STATES)]
        case 1:  # a blind write
            return [rng.randrange(STATES)] * STATES
        case 2:  # anything that is always legal
            return [rng.randrange(STATES) for _ in range(STATES)]
        case _:
            return [rng.choice((None, n, rng.randrange(STATES))) for n in range(STATES)]
