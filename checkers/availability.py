"""``availability``: when nothing worked, and how soon it worked again after each heal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from checkers.invariants.liveness import L2
from checkers.liveness.standstill import standstills
from checkers.timeline.windows import FaultWindow, fault_windows, in_force
from harness.contracts.checker import RunData
from harness.contracts.workload import LOCAL
from harness.history.ops import Interval
from harness.registry import checkers
from harness.spec import SIM
from harness.verdict import CheckResult, Valid

NAME = "availability"
OUTAGE_MIN_MS = 1_000


@checkers.register(NAME, judges=(L2,))
def availability(run: RunData) -> CheckResult:
    """Spans of more than a second without an ok op, and the time to recover after each heal.

    INVALID when a live system that is healed does nothing for longer than its timers explain (L2);
    what a simulated one must do in time, ``liveness`` judges. O(n log n).
    """
    intervals = [i for i in run.history.intervals() if not _is_local(i)]
    windows = in_force(fault_windows(run.history))
    spans = list(outages(intervals))
    found = [_outage(start, end, windows) for start, end in spans]
    recoveries = list(_recoveries(intervals, windows))
    is_live = run.spec.env != SIM
    anomalies = tuple(standstills(run, spans, windows)) if is_live else ()
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else Valid.VALID,
        anomalies,
        checked={
            "ops": len(intervals),
            "heals": len(recoveries),
            **({"L2": 1 + len(spans)} if is_live else {}),
        },
        stats={
            "outage_min_ms": OUTAGE_MIN_MS,
            "outages": found,
            "unavailable_ms": round(sum(o["duration_ms"] for o in found), 3),
            "recoveries": recoveries,
            "recovery_ms_max": max(
                (r["recovery_ms"] for r in recoveries if r["recovery_ms"] is not None), default=None
            ),
        },
    )


def _is_local(interval: Interval) -> bool:
    """Tell whether one node answered alone, which says nothing of the quorum."""
    return interval.invocation.f.startswith(LOCAL)


def outages(
    intervals: Sequence[Interval], min_ms: float = OUTAGE_MIN_MS
) -> Iterator[tuple[int, int]]:
    """(start, end) of spans longer than ``min_ms`` with no ok op while clients were trying.

    A span begins with the last ok op, or with the first op that was tried after it, so a pause of
    the workload is no outage. It ends with the next ok op, or with the last completion.
    """
    ends = sorted(i.completion.time_ns for i in intervals if i.completion and i.outcome == "ok")
    tries = sorted(i.invocation.time_ns for i in intervals)
    if not tries:
        return
    closing = max(i.completion.time_ns if i.completion else tries[-1] for i in intervals)
    waiting = sorted(
        (i.invocation.time_ns, i.completion.time_ns if i.completion else closing) for i in intervals
    )
    previous = tries[0]
    place, open_until = 0, 0
    for end in [*ends, max(closing, ends[-1] if ends else closing)]:
        while place < len(waiting) and waiting[place][0] <= previous:
            open_until = max(open_until, waiting[place][1])
            place += 1
        start = previous
        if open_until <= previous:  # nobody was waiting: wait for the next try
            at = bisect_left(tries, previous)
            start = tries[at] if at < len(tries) else end
        if end - start > min_ms * 1e6:
            yield start, end
        previous = max(previous, end)


def _outage(start_ns: int, end_ns: int, windows: Sequence[FaultWindow]) -> dict[str, Any]:
    return {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "duration_ms": round((end_ns - start_ns) / 1e6, 3),
        "faults": [w.id for w in windows if w.overlaps(start_ns, end_ns)],
    }


def _recoveries(
    intervals: Sequence[Interval], windows: Sequence[FaultWindow]
) -> Iterator[dict[str, Any]]:
    """Work out for each healed fault how long it took until an op tried after the heal was ok."""
    done = sorted(
        (i.invocation.time_ns, i.completion.time_ns)
        for i in intervals
        if i.completion is not None and i.outcome == "ok"
    )
    soonest: list[int] = []  # the earliest completion among the ops from this one on
    for _, end in reversed(done):
        soonest.append(min(end, soonest[-1]) if soonest else end)
    soonest.reverse()
    for window in windows:
        if window.end_ns is None:
            continue
        at = bisect_left(done, (window.end_ns, 0))
        took_ms = (soonest[at] - window.end_ns) / 1e6 if at < len(done) else None
        yield {
            "fault": window.id,
            "nemesis": window.nemesis,
            "healed_ns": window.end_ns,
            "recovery_ms": None if took_ms is None else round(took_ms, 3),
        }
