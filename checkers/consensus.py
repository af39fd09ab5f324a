"""``consensus``: the nodes' own events and logs against the invariants of KRaft."""

from __future__ import annotations

from collections import Counter

from checkers.invariants.acknowledged import Survival, survival
from checkers.invariants.clocks import kept_time
from checkers.invariants.committed import committed_records
from checkers.invariants.inventions import Inventions, inventions
from checkers.invariants.monitor import INVARIANTS, KEPT_PER_INVARIANT_MAX, Monitor
from checkers.invariants.quorum import StepDown
from checkers.invariants.snapshots import judge_stored
from checkers.invariants.trace import whole_trace
from harness.errors import HistoryFormatError
from harness.protocols import RunData
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "consensus"


@checkers.register(NAME, needs=("events", "records"))
def consensus(run: RunData) -> CheckResult:
    """Election safety, durable votes, log matching, quorum-backed commits, acked writes survive.

    Judges S1 to S33 and L4 of the catalogue, snapshots and voter changes with them. O(n log n) in
    the events. UNKNOWN without events, and when the trace lacks some of what was to be judged.
    """
    if not any(run.events.values()):
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node left any event: nothing was judged")
    timed = kept_time(run.history)
    monitor = Monitor(each for each in INVARIANTS if timed or each is not StepDown)
    anomalies = [*monitor.feed_whole(whole_trace(run)), *monitor.finish(run.logs)]
    stored, snapshots = judge_stored(run)
    anomalies += stored[:KEPT_PER_INVARIANT_MAX]
    monitor.found.update(a.invariant for a in stored)
    kept, invented = _clients(run, monitor)
    checked = Counter(monitor.checked)
    checked["S23"] += snapshots
    for name, found in (("S17", kept), ("S18", invented)):
        anomalies += found.anomalies[:KEPT_PER_INVARIANT_MAX]
        monitor.found.update(a.invariant for a in found.anomalies)
        checked[name] += found.checked
    reason = _doubts(monitor, kept)
    return CheckResult(
        NAME,
        _verdict(anomalies, reason),
        tuple(anomalies),
        checked={name: checked[name] for name in sorted(checked, key=_place)},
        stats={
            "events": monitor.events,
            "nodes": len(monitor.world.replicas),
            "commits": len(monitor.world.commits),
            "found": dict(sorted(monitor.found.items())),
            "gaps": monitor.gaps,
        },
        reason=reason,
    )


def _place(name: str) -> tuple[bool, int]:
    """Where an invariant stands in the catalogue: safety first."""
    return name.startswith("L"), int(name[1:])


def _verdict(anomalies: list[Anomaly], reason: str | None) -> Valid:
    if anomalies:
        return Valid.INVALID
    return Valid.VALID if reason is None else Valid.UNKNOWN


def _clients(run: RunData, monitor: Monitor) -> tuple[Survival, Inventions]:
    """What became of the clients' ops, and what nobody asked for."""
    commits, voters = monitor.world.commits, monitor.world.committed_voters()
    names = run.voters if voters is None else tuple(sorted(map(str, voters)))
    committed = committed_records(run.logs, commits)
    try:
        kept = survival(run.history, run.logs, commits, names, committed)
        return kept, inventions(run.history, committed)
    except HistoryFormatError as error:
        undecided = f"acknowledged ops were not looked up: {error}"
        return Survival(undecided=undecided), Inventions()


def _doubts(monitor: Monitor, kept: Survival) -> str | None:
    """Why the verdict is not sure, in one line."""
    doubts = [*monitor.gaps[:3]]
    if monitor.gaps_total > len(doubts):
        doubts.append(f"and {monitor.gaps_total - len(doubts)} more gaps in the trace")
    if not len(monitor.world.commits):
        doubts.append("no high watermark was ever seen: nothing was committed")
    if kept.undecided is not None:
        doubts.append(kept.undecided)
    return "; ".join(doubts) or None
