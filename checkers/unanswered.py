"""``unanswered``: no kind of request goes without any answer for a whole run.

Under faults each request may be lost. But where one kind is never answered, time and again while
others are, nobody answers it. It goes by what clients saw alone, so it holds live, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from checkers.invariants.liveness import L5
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "unanswered"
ANSWERED: Final = ("ok", "fail")
AT_LEAST: Final = 8  # that were asked in vain while another was answered


@checkers.register(NAME, judges=(L5,))
def unanswered(run: RunData) -> CheckResult:
    """Find kinds of ops that were never answered, though others were meanwhile. O(n log n)."""
    kinds: dict[str, list[Interval]] = defaultdict(list)
    for interval in run.history.intervals():
        kinds[interval.invocation.f].append(interval)
    silent = {f: ops for f, ops in kinds.items() if not any(o.outcome in ANSWERED for o in ops)}
    anomalies = list[Anomaly]()
    if silent:
        answered = _Answered([each for ops in kinds.values() for each in ops])
        anomalies = list(_never(silent, answered))
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        tuple(anomalies),
        checked={L5.name: len(kinds)},
    )


class _Answered:
    """Tells whether an op was invoked and answered within a span of time."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        spans = sorted(
            (each.invocation.time_ns, each.completion.time_ns)
            for each in intervals
            if each.completion is not None and each.outcome in ANSWERED
        )
        self._began = [began for began, _ in spans]
        self._earliest_end = list[int]()  # of those that began then or later
        earliest: int | None = None
        for _, end in reversed(spans):
            earliest = end if earliest is None else min(earliest, end)
            self._earliest_end.append(earliest)
        self._earliest_end.reverse()

    def within(self, began_ns: int, ended_ns: int) -> bool:
        place = bisect_left(self._began, began_ns)
        return place < len(self._began) and self._earliest_end[place] <= ended_ns


def _never(silent: dict[str, list[Interval]], answered: _Answered) -> Iterator[Anomaly]:
    for f, ops in silent.items():
        alone = [
            op
            for op in ops
            if op.completion is not None
            and answered.within(op.invocation.time_ns, op.completion.time_ns)
        ]
        if len(alone) >= AT_LEAST:
            first = alone[0]
            yield Anomaly(
                L5.name,
                f"{f} was asked {len(ops)} times and never answered, {len(alone)} times of these"
                f" while other requests were; the first is op {first.invocation.index}",
                ops=tuple(op.invocation.index for op in alone),
                time_ns=alone[-1].completion.time_ns if alone[-1].completion else None,
            )
