"""Client ops for the report: paired, laid out in lanes, counted, and as compact columns."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.history import NEMESIS, Op
from reports.model import ErrorCount, OpStats
from reports.text import clean, compact

OUTCOMES = ("ok", "fail", "info")
VALUE_CHARS_MAX = 200
ERRORS_SHOWN_MAX = 30
LANES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """One client op: its invocation and, unless it was still open at the end, its completion."""

    invocation: Op
    completion: Op | None

    @property
    def outcome(self) -> str:
        """ok, fail or info; an op still open at the end is info."""
        return "info" if self.completion is None else self.completion.type

    @property
    def latency_ns(self) -> int | None:
        """From invocation to completion; None while open."""
        if self.completion is None:
            return None
        return max(0, self.completion.time_ns - self.invocation.time_ns)


def pair(history: Iterable[Op]) -> tuple[list[Span], list[str]]:
    """Pair client ops, sorted by time of invocation; also says what could not be paired.

    Unlike ``History.intervals`` this takes a malformed history, for then a picture is needed
    most: an invocation without an end stays open, a completion alone is an instant.
    """
    spans: list[Span] = []
    open_: dict[int | str, int] = {}
    notes: list[str] = []
    for op in history:
        if op.process == NEMESIS:
            continue
        if op.type == "invoke":
            if op.process in open_:
                notes.append(
                    f"op {op.index}: process {clean(op.process)} invokes while its op "
                    f"{spans[open_[op.process]].invocation.index} is open"
                )
            open_[op.process] = len(spans)
            spans.append(Span(op, None))
        elif (at := open_.pop(op.process, None)) is not None:
            spans[at] = Span(spans[at].invocation, op)
        else:
            notes.append(f"op {op.index}: {op.type} of process {clean(op.process)}, never invoked")
            spans.append(Span(op, op))
    spans.sort(key=lambda span: (span.invocation.time_ns, span.invocation.index))
    return spans, notes


def lanes(spans: Sequence[Span], end_ns: int, *, width: int) -> dict[int | str, int]:
    """The lane of each process, so that no two processes share one at the same time.

    A process whose op ended as info is retired and replaced, by Jepsen's custom with its number
    plus the concurrency (``width``): the successor takes its lane.
    """
    first: dict[int | str, int] = {}
    last: dict[int | str, int] = {}
    for span in spans:
        process = span.invocation.process
        first.setdefault(process, span.invocation.time_ns)
        done = end_ns if span.completion is None else span.completion.time_ns
        last[process] = max(last.get(process, 0), done)
    width = max(1, min(width, LANES_MAX))
    free_at: list[int] = []
    out: dict[int | str, int] = {}
    for process, start in first.items():
        wanted = process % width if isinstance(process, int) else -1
        while len(free_at) <= wanted:
            free_at.append(-1)
        if wanted < 0 or free_at[wanted] > start:
            wanted = next((i for i, at in enumerate(free_at) if at <= start), len(free_at))
            if wanted == len(free_at):
                free_at.append(-1)
        out[process] = wanted
        free_at[wanted] = last[process]
    rows = {lane: row for row, lane in enumerate(sorted(set(out.values())))}
    return {process: rows[lane] for process, lane in out.items()}


def stats(spans: Sequence[Span]) -> tuple[OpStats, ...]:
    """Counts and latencies by kind of op; latencies are those of ok ops."""
    by_f: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_f[span.invocation.f].append(span)
    return tuple(_stats(f, by_f[f]) for f in sorted(by_f))


def _stats(f: str, spans: Sequence[Span]) -> OpStats:
    outcomes = Counter(span.outcome for span in spans)
    times = sorted(
        span.latency_ns for span in spans if span.outcome == "ok" and span.latency_ns is not None
    )
    return OpStats(
        f=clean(f, limit=VALUE_CHARS_MAX),
        ok=outcomes["ok"],
        fail=outcomes["fail"],
        info=outcomes["info"],
        p50_ns=percentile(times, 50),
        p99_ns=percentile(times, 99),
        max_ns=times[-1] if times else None,
    )


def percentile(ordered: Sequence[int], percent: int) -> int | None:
    """The smallest value that at least ``percent`` of 100 are not above; None when empty."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, rank - 1)]


def errors(spans: Sequence[Span]) -> tuple[ErrorCount, ...]:
    """The errors that ops ended with, most frequent first."""
    found = Counter(
        (clean(span.completion.error, limit=VALUE_CHARS_MAX), span.outcome)
        for span in spans
        if span.completion is not None and span.completion.error is not None
    )
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ErrorCount(error, outcome, n) for (error, outcome), n in ranked[:ERRORS_SHOWN_MAX])


def longest_gap(spans: Sequence[Span]) -> tuple[int, int] | None:
    """The longest time without an ok completion while clients worked, as (start, end).

    Clients work from the first invocation to the last event of an op. None without any ok op.
    """
    times = sorted(s.completion.time_ns for s in spans if s.completion and s.outcome == "ok")
    if not times:
        return None
    first, last = work_time(spans)
    edges = [first, *times, last]
    return max(itertools.pairwise(edges), key=lambda gap: gap[1] - gap[0])


def work_time(spans: Sequence[Span]) -> tuple[int, int]:
    """From the first invocation to the last event of an op, in ns; (0, 0) without ops."""
    if not spans:
        return 0, 0
    ends = (s.completion.time_ns if s.completion else s.invocation.time_ns for s in spans)
    return min(s.invocation.time_ns for s in spans), max(ends)


class _Interner:
    """Each distinct text once; index 0 is "nothing"."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._at = {"": 0}

    def __call__(self, text: str | None) -> int:
        if not text:
            return 0
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.texts)
            self.texts.append(text)
        return at


def columns(spans: Sequence[Span], end_ns: int, *, width: int) -> dict[str, Any]:
    """The ops as columns of integers, sorted by start; texts are indices into ``texts``.

    ``t`` (start, µs) and ``i`` (index) hold differences to the row before; ``d`` is the duration
    in µs, -1 while open; ``c`` the completion's index less the invocation's, 0 while open; ``o``
    the outcome, a digit of ``OUTCOMES`` each.
    """
    texts = _Interner()
    lane_of = lanes(spans, end_ns, width=width)
    process_at = {process: at for at, process in enumerate(lane_of)}
    out: dict[str, list[int]] = {name: [] for name in "itcdpfknvre"}
    outcome: list[str] = []
    last_t = last_i = 0
    for span in spans:
        op, end = span.invocation, span.completion
        start_us = op.time_ns // 1000
        out["i"].append(op.index - last_i)
        out["t"].append(start_us - last_t)
        last_i, last_t = op.index, start_us
        out["c"].append(0 if end is None else end.index - op.index)
        out["d"].append(-1 if end is None else max(0, end.time_ns // 1000 - start_us))
        out["p"].append(process_at[op.process])
        out["f"].append(texts(clean(op.f, limit=VALUE_CHARS_MAX)))
        out["k"].append(texts(_text(op.key)))
        out["n"].append(texts(_text(op.node if end is None else op.node or end.node)))
        out["v"].append(texts(_value(op.value)))
        out["r"].append(texts(_value(end.value)) if end else 0)
        out["e"].append(texts(_text(end.error)) if end else 0)
        outcome.append(str(OUTCOMES.index(span.outcome)) if span.outcome in OUTCOMES else "2")
    return {
        **out,
        "o": "".join(outcome),
        "lanes": list(lane_of.values()),
        "processes": [clean(process, limit=40) for process in lane_of],
        "texts": texts.texts,
    }


def _text(value: str | None) -> str | None:
    return None if value is None else clean(value, limit=VALUE_CHARS_MAX)


def _value(value: Any) -> str | None:
    return None if value is None else compact(value, limit=VALUE_CHARS_MAX)
