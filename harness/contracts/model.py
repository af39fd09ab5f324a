"""A model says what a correct, sequential object answers; linearizability is measured against one.

A model turns every completed op into an ``Action`` (what it asked and what it saw) and steps a
state through actions. States and actions are immutable and hashable; a model has no state of its
own. ``step`` returns ``ILLEGAL`` where the object could not have answered so.

A new model is a class registered in any module of ``checkers/models``::

    @models.register("counter")
    class Counter: ...
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from harness.history.formats.conventions import Conventions
from harness.history.ops import History, Interval, Op
from harness.verdict import CheckResult

State = Hashable


class Illegal:
    """The type of ``ILLEGAL``."""

    def __repr__(self) -> str:
        return "ILLEGAL"


ILLEGAL: Final = Illegal()


@dataclass(frozen=True, slots=True)
class Action:
    """The question and the answer of one op; equal actions are interchangeable.

    ``observes``: never changes the state. ``total``: legal in every state. ``blind``: total, and
    what it leaves does not depend on what it found. These are promises that the search relies on.
    """

    f: str
    value: Hashable = None
    seen: Hashable = None
    observes: bool = False
    total: bool = False
    blind: bool = False


class Model(Protocol):
    """A sequential object. Methods are pure; states are compared with ``==``."""

    fs: frozenset[str]  # the ops it knows
    initial: Any  # the state before the first op, where the history's format says nothing

    def start(self, value: Any) -> State:
        """The state that stands for an initial value."""
        ...

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Tell what an op means; None when it is no constraint at all.

        Called with outcome ok or fail: an op that surely happened or surely did not; or info:
        it may take effect any time after its invocation, or never.

        Raises:
            ValueError: A value the op cannot have; says which.
        """
        ...

    def step(self, state: State, action: Action) -> State | Illegal:
        """The state after the action, or ILLEGAL."""
        ...

    def useful(self, unknown: Sequence[Action], known: Sequence[Action]) -> Sequence[bool]:
        """Tell which actions of unknown outcome can help any other; False ones are dropped."""
        ...

    def describe(self, action: Action) -> str:
        """The action in a few words: ``write 3``, ``read -> 3``."""
        ...

    def obstacle(self, state: State, action: Action) -> str:
        """Tell why an illegal action cannot come next, in a few words."""
        ...


@runtime_checkable
class Starts(Protocol):
    """A model with a state before the first op; one that only judges by itself may have none."""

    initial: Any


Timed = tuple[int, int | None, Action]  # place of begin, place of end, what
Outlook = Callable[[State, int], bool]


@runtime_checkable
class Foresees(Protocol):
    """A model that can tell early that a state has no future."""

    def outlook(self, calls: Sequence[Timed]) -> Outlook:
        """A predicate of a state and a place: False only where no order can go on from there.

        The state is the one just before that place, with every call that returned by then done.
        """
        ...


@runtime_checkable
class Ranks(Protocol):
    """A model whose actions can come in one order only, if in any."""

    def rank(self, action: Action) -> Any:
        """The place in that order; anything that can be compared."""
        ...


@runtime_checkable
class Partitions(Protocol):
    """A model of objects that are told apart by something else than the key of an op."""

    def partition(self, op: Op) -> Hashable:
        """The object that an op is of; each is judged on its own."""
        ...


@runtime_checkable
class Judge(Protocol):
    """A model that promises more than linearizability, and so judges a history itself."""

    def check(
        self,
        history: History,
        *,
        conventions: Conventions,
        time_limit_s: float,
        memory_limit_bytes: int | None,
    ) -> CheckResult:
        """Judge the client ops of a history; UNKNOWN where a limit is reached before that."""
        ...


class ByStates(Protocol):
    """Judges client ops by the states and steps of a model: linearizability, key by key."""

    def __call__(
        self,
        history: History,
        model: Model,
        *,
        conventions: Conventions | None = None,
        time_limit_s: float,
        memory_limit_bytes: int | None,
    ) -> CheckResult:
        """Judge them; UNKNOWN where a limit is reached before that."""
        ...


@runtime_checkable
class JudgeBesides(Protocol):
    """A model of which a history is to be looked at as a whole, beside being judged by states."""

    def check_with(
        self,
        by_states: ByStates,
        history: History,
        *,
        conventions: Conventions,
        time_limit_s: float,
        memory_limit_bytes: int | None,
    ) -> CheckResult:
        """Judge the client ops of a history; UNKNOWN where a limit is reached before that."""
        ...


def freeze(value: Any) -> Hashable:
    """A JSON value as something hashable, equal exactly when the JSON values are."""
    if isinstance(value, bool):
        return ("bool", value)  # True == 1 in Python, not in JSON
    if isinstance(value, list | tuple):
        return ("list", *map(freeze, value))
    if isinstance(value, dict):
        return ("map", frozenset((str(k), freeze(v)) for k, v in value.items()))
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return ("nan",)
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"value {value!r} is not JSON")


def thaw(value: Hashable) -> Any:
    """The JSON value that was frozen."""
    match value:
        case ("bool", truth):
            return truth
        case ("nan",):
            return "NaN"
        case ("list", *items):
            return [thaw(item) for item in items]
        case ("map", frozenset() as items):
            return {k: thaw(v) for k, v in sorted(items, key=lambda item: str(item[0]))}
        case _:
            return value


def show(value: Hashable) -> str:
    """A frozen value in words; nil for None."""
    plain = thaw(value)
    text = "nil" if plain is None else repr(plain)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"


_SHOWN_MAX = 120
