"""``stats``: how many ops did what, how long they took, and how many a second."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

from checkers.timeline.windows import during_a_fault, fault_windows, in_force
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.registry import checkers
from harness.verdict import CheckResult, Valid

NAME = "stats"
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}


@checkers.register(NAME)
def stats(run: RunData) -> CheckResult:
    """Op counts, latency percentiles inside and outside of fault windows, throughput.

    It promises nothing about the system, so it is always VALID. Latencies are those of ok ops,
    in milliseconds; an op that overlaps a fault's window counts as inside.
    """
    intervals = run.history.intervals()
    windows = in_force(fault_windows(run.history))
    done = [i for i in intervals if i.outcome == "ok"]
    inside = {id(i) for i in done if during_a_fault(i, windows)}
    return CheckResult(
        NAME,
        Valid.VALID,
        checked={"ops": len(intervals)},
        stats={
            "counts": counts(intervals),
            "latency_ms": {
                "all": _by_f(done),
                "in_faults": _by_f(i for i in done if id(i) in inside),
                "outside_faults": _by_f(i for i in done if id(i) not in inside),
            },
            "throughput_ok_per_s": throughput(intervals),
            "faults": dict(sorted(Counter(w.nemesis for w in windows if w.installed).items())),
        },
    )


def counts(intervals: Iterable[Interval]) -> dict[str, dict[str, int]]:
    """Tell how many ops of each f ended ok, fail and info."""
    by_f: dict[str, Counter[str]] = defaultdict(Counter)
    for interval in intervals:
        by_f[interval.invocation.f][interval.outcome] += 1
    return {f: {t: by_f[f][t] for t in ("ok", "fail", "info")} for f in sorted(by_f)}


def throughput(intervals: Sequence[Interval]) -> float:
    """Ok ops a second, from the first invocation to the last completion."""
    done = [i.completion for i in intervals if i.completion is not None]
    ok = sum(op.type == "ok" for op in done)
    if not done:
        return 0.0
    span_ns = max(op.time_ns for op in done) - min(i.invocation.time_ns for i in intervals)
    return round(ok / (span_ns / 1e9), 3) if span_ns > 0 else float(ok)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of the values does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _by_f(intervals: Iterable[Interval]) -> dict[str, dict[str, Any]]:
    latencies: dict[str, list[float]] = defaultdict(list)
    for interval in intervals:
        if interval.completion is not None:
            took_ns = interval.completion.time_ns - interval.invocation.time_ns
            latencies[interval.invocation.f].append(took_ns / 1e6)
            latencies["all"].append(took_ns / 1e6)
    return {f: _summary(sorted(values)) for f, values in sorted(latencies.items())}


def _summary(ordered: Sequence[float]) -> dict[str, Any]:
    points = {name: round(percentile(ordered, share), 3) for name, share in PERCENTILES.items()}
    return {"count": len(ordered), **points}
