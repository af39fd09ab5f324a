"""``coverage``: did the faults that were asked for happen, and enough ops beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from checkers.timeline.heard import last_heard_ns
from checkers.timeline.windows import FaultWindow, fault_windows
from harness.clock import NS_PER_S
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.moments.words import told
from harness.registry import checkers, nemeses
from harness.verdict import CheckResult, Valid

NAME = "coverage"
OK_OPS_MIN = 20  # fewer ok ops than this say nothing about a system
ALL, NONE = "all", "none"  # what --nemesis may say beside names and families
MS_PER_S = 1_000
TRIES_MIN = 10  # of one kind of op, after which at least one must have been ok


@checkers.register(NAME)
def coverage(run: RunData) -> CheckResult:
    """Each requested nemesis installed and healed with evidence, and enough ops were ok.

    An axis of its own: never INVALID, UNKNOWN when the run did not exercise enough.
    """
    windows = fault_windows(run.history)
    intervals = run.history.intervals()
    doubts = [*_not_ended(run)]
    if run.history.stopped is None:
        doubts += [
            *_not_installed(run, windows),
            *_not_of_the_asked(run, windows),
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


def _not_ended(run: RunData) -> Iterator[str]:
    """A run that was cut short, or a system that did not come back once all was healed."""
    history = run.history
    if history.stopped is not None:
        yield f"the simulation stopped when {history.stopped.get('invariant')} was broken"
        return
    if (abort := next((op.value for op in history.nemesis() if op.f == "abort"), None)) is not None:
        yield f"the run was aborted: {abort.get('reason')}"
    ends = [op.value for op in history.nemesis() if op.f == "recovery" and "recovered" in op.value]
    if not ends:
        yield "the run was cut short: it did not reach the recovery at its end"
    elif down := ends[-1].get("down"):
        names = [f"{node} is down{_since(run, node)} ({how})" for node, how in down.items()]
        yield f"the system did not recover: {', '.join(names)}"
    elif not ends[-1]["recovered"]:
        waited_s = (ends[-1].get("elapsed_ms") or 0) / MS_PER_S
        yield f"the system did not recover within {waited_s:g} s after the last heal"


def _since(run: RunData, node: str) -> str:
    """The moment of a node's last event, which is about when it went down."""
    at_ns = last_heard_ns(run.events.get(node, ()))
    return "" if at_ns is None else f" since {at_ns / NS_PER_S:.1f} s"


def _not_installed(run: RunData, windows: Sequence[FaultWindow]) -> Iterator[str]:
    """The nemeses that were named one by one and never took hold, with why."""
    installed = {w.nemesis for w in windows if w.installed}
    planned, asked = _planned(run, windows), run.spec.asked
    for kind in planned:
        if kind not in installed and (asked is None or kind in asked):
            yield f"{kind} was never installed{_no_moment(run, kind) or _why(kind, windows)}"
    known = {ALL, NONE, *(name for kind in planned for name in (kind, _family(kind)))}
    if unplanned := [name for name in asked or run.spec.nemeses if name not in known]:
        yield (
            f"{', '.join(unplanned)}: requested and never scheduled, as there is no time for them: "
            f"give more than --time-limit {run.spec.time_limit_s:g}"
        )


def _not_of_the_asked(run: RunData, windows: Sequence[FaultWindow]) -> Iterator[str]:
    """The families of which no kind took hold; ``all`` is one of them."""
    installed = {w.nemesis for w in windows if w.installed}
    kinds = _planned(run, windows)
    for family in run.spec.asked or ():
        of_it = [kind for kind in kinds if family in (ALL, _family(kind))]
        if of_it and family not in kinds and installed.isdisjoint(of_it):
            first = of_it[0]
            yield f"no fault of {family} was installed ({first}{_why(first, windows)})"


def _planned(run: RunData, windows: Sequence[FaultWindow]) -> list[str]:
    """The kinds of fault of the schedule, each once."""
    return list(dict.fromkeys([*(f.nemesis for f in run.faults), *(w.nemesis for w in windows)]))


def _family(kind: str) -> str | None:
    return str(nemeses.get(kind)().family) if kind in nemeses.names() else None


def _no_moment(run: RunData, kind: str) -> str | None:
    """Tell that no fault of a kind was tried because the moments that they wait for never came."""
    of_kind = [fault for fault in run.faults if fault.nemesis == kind]
    tried = {op.value.get("id") for op in run.history.nemesis() if op.f == "inject"}
    moments = [f.trigger for f in of_kind if f.trigger is not None and f.id not in tried]
    if not moments or len(moments) < len(of_kind):
        return None
    return f": its moment never came ({told(moments[0])})"


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
