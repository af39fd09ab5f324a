"""Histories given as columns: judged without an object for each op.

``check_columns`` answers as ``check_history`` does; ``decide`` answers with the verdict alone and
is what a benchmark should time. Rows that fail are made into ops only to be explained.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from checkers.limits.budget import MEMORY_LIMIT_BYTES, TIME_LIMIT_S, Budget
from checkers.linearizability.calls import Call
from checkers.linearizability.columns import Columns
from checkers.linearizability.forced import by_forced_order
from checkers.linearizability.methods import judge_calls, judge_columns
from checkers.linearizability.parallel import each
from checkers.linearizability.registers import Found
from checkers.linearizability.sweep import doubtful
from checkers.linearizability.texts import by_witness
from checkers.models.registers import Register
from checkers.models.strings import KvAppend
from harness.contracts.model import Model, State, thaw
from harness.history.formats.conventions import Conventions
from harness.history.ops import History, Interval, Op
from harness.registry import models
from harness.verdict import Valid

MODEL = "cas-register"
RULES = Conventions(failed_cas="observation")
_SWEPT = 2_000  # rows from which keys are swept together


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict; ``key`` is the first that failed, or else that is undecided for ``reason``.

    ``rows`` are those of that key, in its history's own numbers; ``at`` the one whose return
    nothing explains, or that the search had come to.
    """

    valid: Valid
    key: Hashable = None
    rows: Sequence[int] = ()
    at: int | None = None
    reason: str | None = None
    undecided: tuple[Hashable, ...] = ()


def decide(
    columns: Columns,
    model: Model | str = MODEL,
    *,
    initial: Any = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> Decision:
    """Tell whether the calls are linearizable: stops at the first key that is not.

    ``initial`` None takes the model's own. Values are compared with ``==``.

    Raises:
        HistoryFormatError: A value that an op of the model cannot have.
    """
    object_: Model = models.get(model)() if isinstance(model, str) else model
    start = object_.start(object_.initial if initial is None else initial)
    budget = Budget.of(time_limit_s, memory_limit_bytes)
    if columns.key is None:
        found = _judge(columns, object_, start, budget)
        if found.linearizable:
            return _FINE
        return _decision(None, range(len(columns)), found)
    keys, judge_key = None, _judge
    if isinstance(object_, KvAppend):
        told = _strings(columns, start)
        if isinstance(told, Decision):
            return told
        keys, judge_key = told, _searched
    elif isinstance(object_, Register) and len(columns) > _SWEPT and _seldom_cas(columns):
        keys = doubtful(columns, start)
    if keys is not None and not keys:
        return _FINE
    undecided: list[Decision] = []
    parts = list(columns.by_key(keys))

    def judge(part: tuple[Hashable, Sequence[int], Columns], share: Budget) -> Found:
        return judge_key(part[2], object_, start, share)

    for (key, rows, _), found in each(parts, judge, lambda part: len(part[1]), budget):
        if found.linearizable is False:
            return _decision(key, rows, found)
        if found.linearizable is None:
            undecided.append(_decision(key, rows, found))
    if not undecided:
        return _FINE
    first = undecided[0]
    keys_open = tuple(one.key for one in undecided)
    return Decision(Valid.UNKNOWN, first.key, first.rows, first.at, first.reason, keys_open)


def _judge(columns: Columns, model: Model, start: State, budget: Budget) -> Found:
    _, found = judge_columns(columns, model, start, budget)
    return _searched(columns, model, start, budget) if found is None else found


def _searched(columns: Columns, model: Model, start: State, budget: Budget) -> Found:
    return judge_calls(list(calls_from(columns, model)), model, start, budget)


def _seldom_cas(columns: Columns) -> bool:
    """Tell whether a sweep is worth it: most of the first keys have only reads and writes."""
    assert columns.key is not None  # noqa: S101
    some = list(zip(columns.f[:_SWEPT], columns.key, strict=False))
    with_cas = {key for f, key in some if f in ("cas", "not")}
    return 2 * len(with_cas) <= len({key for _, key in some})


def _strings(columns: Columns, start: State) -> Decision | set[Hashable]:
    """The first string that cheap methods find wrong, or else those that they leave open."""
    left: set[Hashable] = set()
    for key, rows in columns.rows_by_key().items():
        fits = by_witness(columns, rows, start)
        if fits is None:
            zones = by_forced_order(columns.take(rows), start)
            fits = None if zones is None else zones.linearizable
        if fits is None:
            left.add(key)
        elif not fits:
            return Decision(Valid.INVALID, key, rows)
    return left


_FINE = Decision(Valid.VALID)


def _decision(key: Hashable, rows: Sequence[int], found: Found) -> Decision:
    at = None if found.row is None else rows[found.row]
    if found.linearizable is False:
        return Decision(Valid.INVALID, key, rows, at)
    return Decision(Valid.UNKNOWN, key, rows, at, found.reason, (key,))


def calls_from(columns: Columns, model: Model) -> Iterator[Call]:
    """The rows of one key as calls of any model; those that say nothing are left out."""
    events = [(time, False, row) for row, time in enumerate(columns.begin)]
    events += [(time, True, row) for row, time in enumerate(columns.end) if time != inf]
    begun, ended = dict[int, int](), dict[int, int]()
    for place, (_, is_end, row) in enumerate(sorted(events)):
        (ended if is_end else begun)[row] = place  # equal times: what begins comes first
    for row, interval in enumerate(_intervals(columns)):
        action = model.action(interval, RULES)
        if action is not None and (row in ended or not action.observes):
            yield Call(begun[row], ended.get(row), action, interval)


def _intervals(columns: Columns) -> Iterator[Interval]:
    """Each row as an op with its completion; index and process are the number of the row."""
    rows = zip(columns.f, columns.value, columns.seen, columns.begin, columns.end, strict=True)
    for row, (f, value, seen, begin, end) in enumerate(rows):
        asked, answer, outcome = thaw(value), thaw(seen), "ok"
        if f in ("cas", "not"):
            asked = answer = [thaw(seen), thaw(value)]
            f, outcome = "cas", "ok" if f == "cas" else "fail"  # noqa: PLW2901
        elif value is not None and seen is None:
            answer = asked
        times = int(begin), 0 if end == inf else int(end)
        yield Interval(
            Op(row, times[0], row, "invoke", f, asked),
            None if end == inf else Op(row, times[1], row, outcome, f, answer),  # type: ignore[arg-type]
        )


def history_of(columns: Columns) -> History:
    """The rows as ops in the order of their events; equal times begin before they end."""
    events: list[tuple[float, bool, int, Op]] = []
    keys = columns.key or [None] * len(columns)
    for row, (interval, key) in enumerate(zip(_intervals(columns), keys, strict=True)):
        name = None if key is None else str(key)
        events.append((columns.begin[row], False, row, interval.invocation.with_(key=name)))
        if interval.completion is not None:
            events.append((columns.end[row], True, row, interval.completion.with_(key=name)))
    events.sort(key=lambda event: event[:3])
    return History(op.with_(index=at) for at, (_, _, _, op) in enumerate(events))
