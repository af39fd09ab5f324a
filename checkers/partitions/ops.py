"""Sends and polls of partitions, read from a history in the form of Jepsen's kafka workload.

``send``, ``poll`` and ``txn`` ops have a list of micro-ops as value: ``["send", k, v]``, which ends
as ``["send", k, [offset, v]]`` (offset nil: not known), and ``["poll"]``, which ends as ``["poll",
{k: [[offset, v], ...]}]``. ``assign`` and ``subscribe`` have a list of keys. A key is a partition.

Source: jepsen.tests.kafka.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.limits.budget import Budget, watched
from harness.contracts.model import freeze
from harness.errors import HistoryFormatError, UsageError
from harness.history.ops import History, Interval

RECORD_FS = frozenset(("send", "poll", "txn"))
ASSIGN_FS = frozenset(("assign", "subscribe"))
IGNORED_FS = frozenset(("crash", "debug-topic-partitions"))
FS = RECORD_FS | ASSIGN_FS | IGNORED_FS
_PAIR = 2

Record = tuple[int | None, Hashable]  # (offset, value)


@dataclass(frozen=True, slots=True, eq=False)
class LogOp:
    """One op: what it sent, by key and in its order, and what each of its polls returned.

    Two are the same only when they are one.
    """

    interval: Interval
    sends: dict[str, list[Record]] = field(default_factory=dict)
    polls: list[dict[str, list[Record]]] = field(default_factory=list)
    keys: tuple[str, ...] = ()  # that it assigned or subscribed to

    @property
    def outcome(self) -> str:
        """Tell how it ended: ok, fail or info."""
        return self.interval.outcome

    @property
    def number(self) -> int:
        """The index of its completion, or of its invocation when it has none."""
        end = self.interval.completion
        return (self.interval.invocation if end is None else end).index

    def polled(self) -> Iterator[tuple[str, Record]]:
        """List every record that it polled, with its key."""
        for poll in self.polls:
            for key, records in poll.items():
                for record in records:
                    yield key, record


def log_ops(history: History, budget: Budget | None = None) -> list[LogOp]:
    """All client ops, in order of invocation.

    Raises:
        BudgetError: The budget has run out.
        UsageError: An op that the kafka workload does not have.
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    intervals = history.intervals(lambda ops: watched(ops, budget))
    return [_log_op(interval) for interval in watched(intervals, budget)]


def _log_op(interval: Interval) -> LogOp:
    begin, end = interval.invocation, interval.completion
    if begin.f not in FS:
        raise UsageError(
            f"op {begin.index} is a {begin.f!r}, which kafka does not know; it knows "
            f"{', '.join(sorted(FS))}: choose another model"
        )
    told = begin if end is None or end.value is None else end
    try:
        if begin.f in ASSIGN_FS:
            return LogOp(interval, keys=tuple(str(key) for key in _list(begin.value)))
        op = LogOp(interval)
        for mop in _list(told.value) if begin.f in RECORD_FS else ():
            _take(_list(mop), op, ended=told is not begin)
    except ValueError as error:
        raise HistoryFormatError(f"op {told.index} ({begin.f}): {error}") from error
    return op


def _take(mop: list[Any], op: LogOp, *, ended: bool) -> None:
    match mop:
        case ["send", key, value]:
            # once it has ended, what was a value is a pair with its offset, if one is known
            record = _record(value) if ended and _is_pair(value) else (None, freeze(value))
            op.sends.setdefault(str(key), []).append(record)
        case ["poll"] | ["poll", None]:
            pass
        case ["poll", Mapping() as polled]:
            op.polls.append(
                {str(key): [_record(each) for each in _list(v)] for key, v in polled.items()}
            )
        case _:
            raise ValueError(f"micro-op {mop!r}, want [send KEY VALUE] or [poll RECORDS]")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == _PAIR


def _record(value: Any) -> Record:
    if not _is_pair(value):
        raise ValueError(f"record {value!r}, want [OFFSET VALUE]")
    offset, content = value
    if isinstance(offset, bool) or not (
        offset is None or (isinstance(offset, int) and offset >= 0)
    ):
        raise ValueError(f"offset {offset!r}, want a number or nil")
    return offset, freeze(content)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"value {value!r}, want a list")
    return list(value)
