"""A string per key with get, put and append, as Porcupine's key-value model has it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Any

from harness.contracts.model import ILLEGAL, Action, Illegal, Outlook, State, Timed, show
from harness.history.formats.conventions import Conventions
from harness.history.ops import Interval
from harness.registry import models


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
        """Tell which strings may begin what the next get saw; any may, once a put comes first."""
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
        """Say what it saw and what there was."""
        return f"it saw {show(action.seen)}, the string is {show(state)}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"value {value!r} is not a string")
