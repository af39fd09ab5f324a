"""Several registers that one op reads and writes at once. Source: knossos.model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, State, freeze, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models

_READS, _WRITES = frozenset(("r", "read")), frozenset(("w", "write"))
_PAIR, _TRIPLE = 2, 3


@models.register("multi-register")
class MultiRegister:
    """Several registers that one op reads and writes: ``txn [[f key value] ...]``."""

    fs: frozenset[str] = frozenset(("txn", "read", "write"))
    initial: Any = None

    def start(self, value: Any) -> State:
        """The values by key, given as a map; a key that is not in it is nil, as in no map."""
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"value {value!r} is not a map of registers")
        given = {} if value is None else value
        return frozenset((str(k), freeze(v)) for k, v in given.items() if v is not None)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Reads and writes in their order; a read that nobody saw the answer of sees anything."""
        op, end = interval.invocation, interval.completion
        if op.f not in self.fs:
            raise ValueError(f"registers have no op {op.f!r}")
        if interval.outcome == "fail":
            return None
        known = interval.outcome == "ok" and end is not None
        asked = _steps(op.f, op.value)
        steps = _steps(op.f, end.value) if known and end is not None and end.value else asked
        same = [step[:_PAIR] for step in steps] == [step[:_PAIR] for step in asked]
        if not same and op.f != "read":
            raise ValueError(f"answered {steps!r} to {asked!r}: other ops")
        kept = [
            step
            for step in steps
            if step[0] == "w"
            or (known and not (step[2] is None and conventions.nil_read == "no-constraint"))
        ]
        if not kept:
            return None
        writes = [step for step in kept if step[0] == "w"]
        total = len(writes) == len(kept)
        return Action("txn", tuple(kept), observes=not writes, total=total)

    def step(self, state: State, action: Action) -> State | Illegal:
        """One after the other; a read inside sees the writes before it."""
        assert isinstance(state, frozenset) and isinstance(action.value, tuple)  # noqa: S101, PT018
        now = dict(state)
        for f, key, value in action.value:
            if f == "w":
                now[key] = value
            elif now.get(key) != value:
                return ILLEGAL
        return frozenset(item for item in now.items() if item[1] is not None)

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``read x -> 1, write y 2``."""
        assert isinstance(action.value, tuple)  # noqa: S101
        return ", ".join(
            f"write {key} {show(value)}" if f == "w" else f"read {key} -> {show(value)}"
            for f, key, value in action.value
        )

    def obstacle(self, state: State, _: Action) -> str:
        """Say what there was."""
        assert isinstance(state, frozenset)  # noqa: S101
        held = ", ".join(sorted(f"{key} = {show(value)}" for key, value in state))
        return f"the registers are {held or 'all nil'}"


def _steps(f: str, value: Any) -> list[tuple[str, str, Hashable]]:
    """The reads ("r") and writes ("w") of one op."""
    if f != "txn":
        if not isinstance(value, dict):
            raise ValueError(f"value {value!r}, want a map of registers")
        kind = "w" if f == "write" else "r"
        return [(kind, str(key), freeze(one)) for key, one in value.items()]
    if not isinstance(value, list | tuple):
        raise ValueError(f"value {value!r}, want [[f, key, value], ...]")
    found: list[tuple[str, str, Hashable]] = []
    for step in value:
        if not isinstance(step, list | tuple) or len(step) != _TRIPLE:
            raise ValueError(f"step {step!r}, want [f, key, value]")
        if step[0] not in _READS | _WRITES:
            raise ValueError(f"step {step!r}: f is neither read nor write")
        found.append(("r" if step[0] in _READS else "w", str(step[1]), freeze(step[2])))
    return found
