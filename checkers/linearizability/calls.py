"""From ops to calls: what the search sees of a history, key by key.

A call has the place where it began and the place where it ended in the order of events; a call of
unknown outcome never ends. Ops that are no constraint (failed reads, ops that did not happen) are
gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf

from checkers.limits.budget import Budget, watched
from checkers.linearizability.columns import Columns
from harness.contracts.model import Action, Model, Partitions
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats.conventions import Conventions
from harness.history.ops import NEMESIS, History, Interval, Op


@dataclass(frozen=True, slots=True)
class Call:
    """One op as the search sees it."""

    begin: int  # place in the order of events
    end: int | None  # None: of unknown outcome, it may take effect any time after begin
    action: Action
    interval: Interval = field(repr=False)

    @property
    def index(self) -> int:
        """The index of the op's invocation in the history."""
        return self.interval.invocation.index

    def open_ended(self) -> Call:
        """Give this call as if it had not returned yet."""
        return replace(self, end=None)


@dataclass(slots=True)
class Calls:
    """The calls of a history by key, sorted by where they began; keys in order of appearance."""

    by_key: dict[Hashable, list[Call]]
    counts: Counter[str]  # ops by what became of them


def calls_of(
    history: History,
    model: Model,
    conventions: Conventions,
    *,
    places: Mapping[int, int],
    budget: Budget | None = None,
) -> Calls:
    """Pair, judge and split the client ops of a history. O(n).

    Raises:
        BudgetError: The budget has run out.
        UsageError: An op that the model does not know.
        HistoryFormatError: A completion without an invocation, or an impossible value.
    """
    by_key: dict[Hashable, list[Call]] = {}
    counts: Counter[str] = Counter()
    key_of = model.partition if isinstance(model, Partitions) else None
    intervals = history.intervals(lambda ops: watched(ops, budget))
    for interval in watched(intervals, budget):
        op = interval.invocation
        if op.f not in model.fs:
            raise UsageError(
                f"op {op.index} is a {op.f!r}, which the model does not know; it knows "
                f"{', '.join(sorted(model.fs))}: choose another model"
            )
        try:
            action = model.action(interval, conventions)
        except ValueError as error:
            raise HistoryFormatError(f"op {op.index} ({op.f}): {error}") from error
        calls = by_key.setdefault(op.key if key_of is None else key_of(op), [])
        if action is None:
            counts["no constraint"] += 1
            continue
        end = interval.completion
        known = end is not None and end.type != "info"
        if not known and action.observes:
            counts["no constraint"] += 1
            continue
        counts["known" if known else "unknown outcome"] += 1
        calls.append(
            Call(places[op.index], places[end.index] if known and end else None, action, interval)
        )
    return Calls({k: _useful(v, model, counts) for k, v in by_key.items()}, counts)


def columns_of(calls: Sequence[Call]) -> Columns:
    """The calls of one key as columns; a cas that changes nothing is a read."""
    actions = [call.action for call in calls]
    return Columns(
        ["read" if a.f == "cas" and a.observes else a.f for a in actions],
        [a.value for a in actions],
        [a.seen for a in actions],
        [call.begin for call in calls],
        [inf if call.end is None else call.end for call in calls],
    )


def _useful(calls: list[Call], model: Model, counts: Counter[str]) -> list[Call]:
    """Drop calls of unknown outcome that cannot help: leaving them out is always allowed."""
    calls.sort(key=lambda call: call.begin)
    unknown = [call.action for call in calls if call.end is None]
    if not unknown:
        return calls
    keep = iter(model.useful(unknown, [call.action for call in calls if call.end is not None]))
    kept = [call for call in calls if call.end is not None or next(keep)]
    if len(kept) < len(calls):
        counts["unknown outcome"] -= len(calls) - len(kept)
        counts["unknown outcome, never needed"] += len(calls) - len(kept)
    return kept


def event_places(
    history: History, conventions: Conventions, budget: Budget | None = None
) -> tuple[dict[int, int], bool]:
    """The place of each op (by index) in the order of events, and whether equal times blurred it.

    Intervals are closed: of neighbouring events with one time stamp the invocations come first,
    so that their ops are concurrent. That forgets the order of two ops of *one* process that
    end and begin at one time; the second value says whether it happened. A history in which all
    times are equal has no times.

    Raises:
        BudgetError: The budget has run out.
    """
    ops = list(history)
    places = {op.index: place for place, op in enumerate(watched(ops, budget))}
    if conventions.equal_times == "ordered" or not ops or ops[0].time_ns == ops[-1].time_ns:
        return places, False
    blurred = False
    start = 0
    for _, group in groupby(watched(ops, budget), key=lambda op: op.time_ns):
        same = list(group)
        if len(same) > 1:
            for place, op in enumerate(sorted(same, key=_completes), start=start):
                places[op.index] = place
            blurred = blurred or _blurs(same)
        start += len(same)
    return places, blurred


def _completes(op: Op) -> bool:
    return op.type != "invoke"


def _blurs(group: Sequence[Op]) -> bool:
    """Tell whether some process ends one op and begins its next within the group."""
    ended: set[int | str] = set()
    for op in group:
        if op.type != "invoke":
            ended.add(op.process)
        elif op.process in ended and op.process != NEMESIS:
            return True
    return False
