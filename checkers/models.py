"""Models: what a correct, sequential object answers; linearizability is measured against one.

A model turns every completed op into an ``Action`` (what it asked and what it saw) and steps a
state through actions. States and actions are immutable and hashable; a model has no state of its
own. ``step`` returns ``ILLEGAL`` where the object could not have answered so.

A new model is a class registered here or in any module of this folder::

    @models.register("counter")
    class Counter: ...
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any, Final, Protocol, runtime_checkable

from harness.formats.conventions import Conventions
from harness.history import History, Interval, Op
from harness.registry import models
from harness.verdict import CheckResult

State = Hashable


class Illegal:
    """The type of ``ILLEGAL``."""

    def __repr__(self) -> str:
        return "ILLEGAL"


ILLEGAL: Final = Illegal()
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Action:
    """What one op asked and saw; equal actions are interchangeable.

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
        """What an op means; None when it is no constraint at all.

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
        """Which actions of unknown outcome can help any of the others; False ones are dropped."""
        ...

    def describe(self, action: Action) -> str:
        """The action in a few words: ``write 3``, ``read -> 3``."""
        ...

    def obstacle(self, state: State, action: Action) -> str:
        """Why an illegal action cannot come next, in a few words."""
        ...


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
        """What it needed and what there was."""
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


@models.register("kv-append")
class KvAppend:
    """A string per key with get, put and append; initially empty."""

    fs: frozenset[str] = frozenset(("get", "put", "append"))
    initial: Any = ""

    def start(self, value: Any) -> State:
        """The string itself; nil is the empty one."""
        return _text(value)

    def action(self, interval: Interval, conventions: Conventions) -> Action | None:
        """Gets count when they are ok; a put or append that failed did not happen."""
        op, outcome = interval.invocation, interval.outcome
        match op.f:
            case "get":
                if outcome != "ok" or interval.completion is None:
                    return None
                value = interval.completion.value
                if value is None and conventions.nil_read == "no-constraint":
                    return None
                return Action("get", seen=_text(value), observes=True)
            case "put":
                return (
                    None
                    if outcome == "fail"
                    else Action("put", _text(op.value), total=True, blind=True)
                )
            case "append":
                return None if outcome == "fail" else Action("append", _text(op.value), total=True)
            case _:
                raise ValueError(f"a string store has no op {op.f!r}")

    def step(self, state: State, action: Action) -> State | Illegal:
        """Append adds at the end, put replaces, get shows the whole string."""
        match action.f:
            case "append":
                return f"{state}{action.value}"
            case "put":
                return action.value
            case _:
                return state if action.seen == state else ILLEGAL

    def useful(self, unknown: Sequence[Action], known: Sequence[Action]) -> Sequence[bool]:
        """One of unknown outcome helps only if some get saw its text."""
        seen = [str(a.seen) for a in known if a.f == "get"]
        return [any(str(a.value) in text for text in seen) for a in unknown]

    def outlook(self, calls: Sequence[Timed]) -> Outlook:
        """Where no put can come before the next get, the string is a beginning of what it saw."""
        gets = sorted(
            (begin, end, str(action.seen))
            for begin, end, action in calls
            if action.f == "get" and end is not None
        )
        begins = [begin for begin, _, _ in gets]
        puts = sorted((b, inf if e is None else e) for b, e, a in calls if a.f == "put")
        put_begins = [begin for begin, _ in puts]
        ends = list(accumulate((end for _, end in puts), max))  # the latest of the first n

        def possible(state: State, place: int) -> bool:
            at = bisect_right(begins, place)
            if at == len(gets):
                return True
            _, get_end, seen = gets[at]
            before = bisect_right(put_begins, get_end)
            if before and ends[before - 1] >= place:
                return True  # a put may come in between
            return seen.startswith(str(state))

        return possible

    def describe(self, action: Action) -> str:
        """As in ``get -> 'ab'``, ``append 'b'``."""
        if action.f == "get":
            return f"get -> {show(action.seen)}"
        return f"{action.f} {show(action.value)}"

    def obstacle(self, state: State, action: Action) -> str:
        """What it saw and what there was."""
        return f"it saw {show(action.seen)}, the string is {show(state)}"


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
        """What it saw and what there was."""
        return f"it saw {_show_members(action.seen)}, the set is {_show_members(state)}"


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
        """What it saw and what there was."""
        return f"it saw {_show_elements(action.seen)}, the list is {_show_elements(state)}"


@models.register("log")
class Log(ListAppend):
    """An append-only log: an append that is ok tells its position, from 0; a read all of it."""

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
        """Where the log ended, or what was in it."""
        if action.f == "append":
            assert isinstance(state, tuple)  # noqa: S101
            return f"it went to {action.seen}, the log ends at {len(state)}"
        return super().obstacle(state, action)


@models.register("mutex")
class Mutex:
    """A lock with acquire and release; initially free."""

    fs: frozenset[str] = frozenset(("acquire", "release"))
    initial: Any = False

    def start(self, value: Any) -> State:
        """Whether it is held."""
        return freeze(bool(value))

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """An op that failed did not happen."""
        if interval.invocation.f not in self.fs:
            raise ValueError(f"a mutex has no op {interval.invocation.f!r}")
        return None if interval.outcome == "fail" else Action(interval.invocation.f)

    def step(self, state: State, action: Action) -> State | Illegal:
        """Only a free lock is acquired, only a held one released."""
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


def _read(interval: Interval, conventions: Conventions) -> Action | None:
    if interval.outcome != "ok" or interval.completion is None:
        return None  # nobody saw anything
    value = interval.completion.value
    if value is None and conventions.nil_read == "no-constraint":
        return None
    return Action("read", seen=freeze(value), observes=True)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"value {value!r} is not a string")


def _elements(value: Any) -> tuple[Hashable, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"value {value!r} is not a list")
    return tuple(freeze(item) for item in value)


def _show_elements(elements: Hashable) -> str:
    assert isinstance(elements, tuple)  # noqa: S101
    return show(("list", *elements))


def _members(value: Any) -> frozenset[Hashable]:
    if not isinstance(value, list | tuple | set | frozenset):
        raise ValueError(f"value {value!r} is not a list of members")
    return frozenset(freeze(item) for item in value)


def _show_members(members: Hashable) -> str:
    assert isinstance(members, frozenset)  # noqa: S101
    return "{" + ", ".join(sorted(show(member) for member in members)) + "}"
