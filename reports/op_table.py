"""Client ops for the report: paired, in columns, counted, and laid out in lanes.

A run may have millions of ops, so a table holds them as arrays of integers (some 80 bytes an op)
and the history is read once, op by op; only the ops that an anomaly names stay objects.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.history.ops import NEMESIS, Op
from reports.model import ErrorCount, OpStats
from reports.ops import OUTCOMES, Span, percentile
from reports.text import clean, compact

VALUE_CHARS_MAX = 200
LONG_VALUES_CHARS_MAX = 16_000_000  # of all values; those that come later are cut at SHORT
SHORT_VALUE_CHARS_MAX = 40
ERRORS_SHOWN_MAX = 30
LANES_MAX = 1000
NOTES_KEPT_MAX = 100
TIME_NS_MAX = 2**53 - 1  # 104 days
OPEN = -1  # the end of an op that never ended
NOTHING, SAME = 0, 2  # codes of values: none, and of results: the value itself
_NUMBER_MAX = 2**46

_Q = "q"


class Interner:
    """Each distinct text once; index 0 is "nothing"."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._at: dict[Any, int] = {None: 0, "": 0}

    def __call__(self, raw: str | None, *, limit: int = VALUE_CHARS_MAX) -> int:
        """The index of a foreign text, cleaned."""
        at = self._at.get(raw)
        if at is None:
            text = clean(raw, limit=limit)
            at = self._at.get(text)
            if at is None:
                at = self._at[text] = len(self.texts)
                self.texts.append(text)
            if raw is not None and len(raw) <= limit:  # what is longer is not worth keeping
                self._at[raw] = at
        return at


class Values:
    """Values of ops as integers.

    ``NOTHING`` is None; ``n << 2 | 1`` a number from 0 up; ``at << 2 | 3`` the text ``texts[at]``,
    its JSON. ``SAME`` is given by the table alone.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._at: dict[str, int] = {}
        self._chars = 0

    def __call__(self, value: Any) -> int:
        """The code of a value."""
        if value is None:
            return NOTHING
        if type(value) is int and 0 <= value < _NUMBER_MAX:
            return value << 2 | 1
        short = self._chars >= LONG_VALUES_CHARS_MAX
        text = compact(value, limit=SHORT_VALUE_CHARS_MAX if short else VALUE_CHARS_MAX)
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.texts)
            self.texts.append(text)
            self._chars += len(text)
        return at << 2 | 3


def _column() -> array[int]:
    return array(_Q)


@dataclass(slots=True)
class OpTable:
    """Client ops by time of invocation, a row each; all times in ns.

    ``end`` and ``ended`` (the index of the completion) are ``OPEN`` for an op without one;
    ``outcome`` is an index into ``OUTCOMES``; ``f``, ``key``, ``node`` and ``error`` are indices
    into ``texts``, ``process`` into ``processes``; ``value`` and ``result`` are codes of
    ``values``.
    """

    index: array[int] = field(default_factory=_column)
    start: array[int] = field(default_factory=_column)
    end: array[int] = field(default_factory=_column)
    ended: array[int] = field(default_factory=_column)
    outcome: array[int] = field(default_factory=_column)
    process: array[int] = field(default_factory=_column)
    f: array[int] = field(default_factory=_column)
    key: array[int] = field(default_factory=_column)
    node: array[int] = field(default_factory=_column)
    error: array[int] = field(default_factory=_column)
    value: array[int] = field(default_factory=_column)
    result: array[int] = field(default_factory=_column)
    texts: Interner = field(default_factory=Interner)
    values: Values = field(default_factory=Values)
    processes: list[int | str] = field(default_factory=list)
    nemesis: list[Op] = field(default_factory=list)
    wanted: list[Span] = field(default_factory=list)  # the ops that were asked for
    notes: list[str] = field(default_factory=list)  # what could not be paired
    last_ns: int = 0  # the last op of anyone

    def __len__(self) -> int:
        return len(self.start)

    def columns(self) -> tuple[array[int], ...]:
        """All columns."""
        return (
            *(self.index, self.start, self.end, self.ended, self.outcome, self.process),
            *(self.f, self.key, self.node, self.error, self.value, self.result),
        )

    def ok_latencies(self) -> array[int]:
        """Give the latencies of the ops that were ok, in ns, sorted."""
        rows = zip(self.start, self.end, self.outcome, strict=True)
        times = array(_Q, (max(0, end - start) for start, end, out in rows if out == 0))
        return array(_Q, sorted(times))

    def latencies(self) -> Iterable[int]:
        """Give the latencies of the ops that ended, in ns."""
        return (
            max(0, end - start)
            for start, end in zip(self.start, self.end, strict=True)
            if end != OPEN
        )


def read(history: Iterable[Op], wanted: Collection[int] = ()) -> OpTable:
    """Pair client ops; ``wanted`` are indices of ops to keep whole.

    Unlike ``History.intervals`` this takes a malformed history, for then a picture is needed
    most: an invocation without an end stays open, a completion alone is an instant.
    """
    table = OpTable()
    reader = _Reader(table, frozenset(wanted))
    for op in history:
        table.last_ns = max(table.last_ns, op.time_ns)
        if op.process == NEMESIS:
            table.nemesis.append(op)
        elif op.type == "invoke":
            reader.begin(op)
        else:
            reader.end(op)
    reader.leave_open()
    _sort(table)
    return table


class _Reader:
    """Fills a table op by op."""

    def __init__(self, table: OpTable, wanted: frozenset[int]) -> None:
        self._table = table
        self._wanted = wanted
        self._open: dict[int | str, tuple[int, Op]] = {}
        self._processes: dict[int | str, int] = {}

    def begin(self, op: Op) -> None:
        """An invocation: a new row."""
        table = self._table
        if (before := self._open.get(op.process)) is not None:
            self._keep(before[1], None)
            self._note(
                f"op {op.index}: process {clean(op.process)} invokes while its op "
                f"{before[1].index} is open"
            )
        self._open[op.process] = (len(table), op)
        self._row(op)

    def end(self, op: Op) -> None:
        """A completion: the rest of its row."""
        table = self._table
        row, invocation = self._open.pop(op.process, (len(table), op))
        if row == len(table):
            self._note(f"op {op.index}: {op.type} of process {clean(op.process)}, never invoked")
            self._row(op)
        table.end[row] = _time(op.time_ns)
        table.ended[row] = op.index
        table.outcome[row] = OUTCOMES.index(op.type) if op.type in OUTCOMES else 2
        if op.node is not None and not table.node[row]:
            table.node[row] = table.texts(op.node)
        table.error[row] = table.texts(op.error)
        same = op.value is not None and type(op.value) is int and op.value == invocation.value
        table.result[row] = SAME if same else table.values(op.value)
        self._keep(invocation, op)

    def leave_open(self) -> None:
        """The history is over."""
        for _, op in self._open.values():
            self._keep(op, None)

    def _row(self, op: Op) -> None:
        table, texts = self._table, self._table.texts
        process = self._processes.setdefault(op.process, len(self._processes))
        if process == len(table.processes):
            table.processes.append(op.process)
        table.index.append(op.index)
        table.start.append(_time(op.time_ns))
        table.end.append(OPEN)
        table.ended.append(OPEN)
        table.outcome.append(2)
        table.process.append(process)
        table.f.append(texts(op.f))
        table.key.append(texts(op.key))
        table.node.append(texts(op.node))
        table.error.append(0)
        table.value.append(table.values(op.value))
        table.result.append(NOTHING)

    def _keep(self, invocation: Op, completion: Op | None) -> None:
        ends = completion is not None and completion.index in self._wanted
        if ends or invocation.index in self._wanted:
            end = None if completion is None else completion
            self._table.wanted.append(Span(invocation, end))

    def _note(self, text: str) -> None:
        if len(self._table.notes) < NOTES_KEPT_MAX:
            self._table.notes.append(text)


def _time(time_ns: int) -> int:
    return min(max(0, time_ns), TIME_NS_MAX)


def _sort(table: OpTable) -> None:
    """Sort the ops by start, then index; a history in good order is sorted already."""
    table.wanted.sort(key=lambda span: (span.invocation.time_ns, span.invocation.index))
    if all(a <= b for a, b in itertools.pairwise(table.start)):
        return
    order = sorted(range(len(table)), key=lambda row: (table.start[row], table.index[row]))
    for column in table.columns():
        column[:] = array(_Q, [column[row] for row in order])


def lanes(table: OpTable, end_ns: int, *, width: int) -> list[int]:
    """The lane of each process, so that no two processes share one at the same time.

    A process whose op ended as info is retired and replaced, by Jepsen's custom with its number
    plus the concurrency (``width``): the successor takes its lane.
    """
    first: dict[int, int] = {}
    last = [0] * len(table.processes)
    for process, start, end in zip(table.process, table.start, table.end, strict=True):
        if process not in first:
            first[process] = start
        last[process] = max(last[process], end_ns if end == OPEN else end)
    width = max(1, min(width, LANES_MAX))
    free_at: list[int] = []
    out: dict[int, int] = {}
    for process, start in first.items():
        name = table.processes[process]
        wanted = name % width if isinstance(name, int) else -1
        while len(free_at) <= wanted:
            free_at.append(-1)
        if wanted < 0 or free_at[wanted] > start:
            wanted = next((i for i, at in enumerate(free_at) if at <= start), len(free_at))
            if wanted == len(free_at):
                free_at.append(-1)
        out[process] = wanted
        free_at[wanted] = last[process]
    rows = {lane: row for row, lane in enumerate(sorted(set(out.values())))}
    return [rows[out[process]] for process in range(len(table.processes))]


def stats(table: OpTable) -> tuple[OpStats, ...]:
    """Counts and latencies by kind of op; latencies are those of ok ops."""
    outcomes: Counter[tuple[int, int]] = Counter(zip(table.f, table.outcome, strict=True))
    times: dict[int, array[int]] = defaultdict(_column)
    rows = zip(table.f, table.outcome, table.start, table.end, strict=True)
    for f, outcome, start, end in rows:
        if outcome == 0:
            times[f].append(max(0, end - start))
    found = sorted((table.texts.texts[f], f) for f in set(table.f))
    return tuple(_stats(name, f, outcomes, sorted(times[f])) for name, f in found)


def _stats(
    name: str, f: int, outcomes: Mapping[tuple[int, int], int], times: Sequence[int]
) -> OpStats:
    return OpStats(
        f=name,
        ok=outcomes.get((f, 0), 0),
        fail=outcomes.get((f, 1), 0),
        info=outcomes.get((f, 2), 0),
        p50_ns=percentile(times, 50),
        p99_ns=percentile(times, 99),
        max_ns=times[-1] if times else None,
    )


def errors(table: OpTable) -> tuple[ErrorCount, ...]:
    """The errors that ops ended with, most frequent first."""
    found = Counter(zip(table.error, table.outcome, strict=True))
    ranked = sorted(
        (-n, table.texts.texts[error], OUTCOMES[outcome])
        for (error, outcome), n in found.items()
        if error
    )
    return tuple(ErrorCount(error, outcome, -n) for n, error, outcome in ranked[:ERRORS_SHOWN_MAX])


def longest_gap(table: OpTable) -> tuple[int, int] | None:
    """The longest time without an ok completion while clients worked, as (start, end).

    Clients work from the first invocation to the last event of an op. None without any ok op.
    """
    ok = zip(table.end, table.outcome, strict=True)
    times = array(_Q, sorted(end for end, outcome in ok if outcome == 0))
    if not times:
        return None
    first, last = work_time(table)
    edges = itertools.chain((first,), times, (last,))
    return max(itertools.pairwise(edges), key=lambda gap: gap[1] - gap[0])


def work_time(table: OpTable) -> tuple[int, int]:
    """Give when the first op began and the last event of one was, in ns; (0, 0) without ops."""
    if not len(table):
        return 0, 0
    return table.start[0], max(map(max, table.start, table.end))
