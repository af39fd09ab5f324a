"""More models: several registers at once, blocks of producer ids, ISRs by compare-and-set; yours.

Source: knossos.model (multi-register); KIP-730 (blocks); KIP-497 (ISRs).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.models import ILLEGAL, Action, Illegal, State, freeze, show
from harness.formats.conventions import Conventions
from harness.history import Interval, Op
from harness.registry import models

_READS, _WRITES = frozenset(("r", "read")), frozenset(("w", "write"))
_PAIR, _TRIPLE = 2, 3


@models.register("multi-register")
class MultiRegister:
    """Registers that one op may read and write several of: ``txn [[f key value] ...]``."""

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
        """What there was."""
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
        """Only blocks that were answered can be judged."""
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
        """There are none that could be."""
        return [False] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``ids 0 to 999``."""
        assert isinstance(action.value, tuple)  # noqa: S101
        first, count = action.value
        return f"ids {first} to {first + count - 1}"

    def obstacle(self, state: State, _: Action) -> str:
        """How far ids were given."""
        return f"ids below {state} had been given"


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
        """What was asked by which epoch."""
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
        """Only who knows the epoch changes the ISR, and so makes the next epoch."""
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
        """What it needed and what there was."""
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
        """As the step says."""
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
