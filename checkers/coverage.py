"""``coverage``: did the faults that were asked for happen, and enough ops beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from checkers.timeline.windows import FaultWindow, fault_windows
from harness.contracts.checker import RunData
from harness.history.ops import History, Interval
from harness.registry import checkers, nemeses
from harness.verdict import CheckResult, Valid

NAME = "coverage"
OK_OPS_MIN = 20  # fewer ok ops than this say nothing about a system
TRIES_MIN = 10  # of one kind of op, after which at least one must have been ok


@checkers.register(NAME)
def coverage(run: RunData) -> CheckResult:
    """Each requested nemesis installed and healed with evidence, and enough ops were ok.

    An axis of its own: never INVALID, UNKNOWN when the run did not exercise enough.
    """
    windows = fault_windows(run.history)
    intervals = run.history.intervals()
    doubts = [*_not_ended(run.history)]
    if run.history.stopped is None:
        doubts += [
            *_not_installed(run, windows),
            *_not_healed(windows),
            *_too_few(intervals),
        ]
    installed = Counter(w.nemesis for w in windows if w.installed)
    outcomes = Counter(str(w.outcome) for w in windows)
    return CheckResult(
        NAME,
        Valid.UNKNOWN if doubts else Valid.VALID,
        checked={
            "faults": len(windows),
            "installed": sum(installed.values()),
            "healed": sum(w.heal_evidence for w in windows),
            "ok": sum(i.outcome == "ok" for i in intervals),
        },
        stats={
            "installed": dict(sorted(installed.items())),
            "outcomes": dict(sorted(outcomes.items())),
        },
        reason="; ".join(doubts) or None,
    )


def _not_ended(history: History) -> Iterator[str]:
    """A run that was cut short, or a system that did not come back once all was healed."""
    if history.stopped is not None:
        yield f"the simulation stopped when {history.stopped.get('invariant')} was broken"
        return
    ends = [op.value for op in history.nemesis() if op.f == "recovery" and "recovered" in op.value]
    if not ends:
        yield "the run was cut short: it never came to the recovery at its end"
    elif not ends[-1]["recovered"]:
        yield (
            f"the system did not recover within {ends[-1].get('elapsed_ms')} ms after the last heal"
        )


def _not_installed(run: RunData, windows: Sequence[FaultWindow]) -> Iterator[str]:
    """Requested nemeses that never took hold, with why."""
    installed = {w.nemesis for w in windows if w.installed}
    planned = dict.fromkeys([*(f.nemesis for f in run.faults), *(w.nemesis for w in windows)])
    for kind in planned:
        if kind not in installed:
            yield f"{kind} was never installed{_why(kind, windows)}"
    known = {name for kind in planned for name in (kind, _family(kind))}
    if unplanned := [requested for requested in run.spec.nemeses if requested not in known]:
        yield (
            f"{', '.join(unplanned)}: requested and never scheduled, as there is no time for them: "
            f"give more than --time-limit {run.spec.time_limit_s:g}"
        )


def _family(kind: str) -> str | None:
    return str(nemeses.get(kind)().family) if kind in nemeses.names() else None


def _why(kind: str, windows: Sequence[FaultWindow]) -> str:
    of_kind = [w for w in windows if w.nemesis == kind]
    if not of_kind:
        return ": the run ended before"
    last = of_kind[-1]
    if last.outcome == "installed":
        return ": it left no evidence"
    return f": {last.outcome or 'its injection never ended'}" + (
        f", {last.reason}" if last.reason else ""
    )


def _not_healed(windows: Sequence[FaultWindow]) -> Iterator[str]:
    for window in windows:
        if window.outcome == "installed" and not window.heal_evidence:
            how = "never healed" if window.end_ns is None else "healed without evidence"
            yield f"fault {window.id} ({window.nemesis}) was {how}"


def _too_few(intervals: Sequence[Interval]) -> Iterator[str]:
    ok = Counter(i.invocation.f for i in intervals if i.outcome == "ok")
    tried = Counter(i.invocation.f for i in intervals)
    if ok.total() < OK_OPS_MIN:
        yield f"only {ok.total()} ops were ok, want {OK_OPS_MIN} or more"
    for f, tries in sorted(tried.items()):
        if tries >= TRIES_MIN and not ok[f]:
            yield f"none of {tries} {f} ops was ok"
