"""``consensus``: the nodes' own events and logs against the invariants of KRaft."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from checkers.committed.records import committed_records
from checkers.committed.reference import committed
from checkers.invariants.acknowledged import Survival, survival
from checkers.invariants.inventions import S18, Inventions, inventions
from checkers.invariants.snapshots import judge_stored
from checkers.monitor.catalogue import meanings_of
from checkers.monitor.monitor import KEPT_PER_INVARIANT_MAX, Monitor
from checkers.watches.invariants import told_meanwhile, watched
from harness.catalogue import place
from harness.contracts.checker import RunData
from harness.errors import HistoryFormatError
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "consensus"


@checkers.register(NAME, needs=("events", "records"), judges=(*meanings_of(NAME), S18))
def consensus(run: RunData) -> CheckResult:
    """Judge elections, votes, logs, commits and acknowledged writes by what nodes told.

    Judges S1 to S38 and L4 of the catalogue, snapshots and voter changes with them. O(n log n) in
    the events. UNKNOWN without events, and when the trace lacks some of what was to be judged.
    Of a simulation that was stopped only the events are judged, and the clients' ops by what was
    committed: its disks are as they were in the middle of a fault.
    """
    if not any(run.events.values()):
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node left any event: nothing was judged")
    monitor = watched(run)
    if run.history.stopped is None:
        monitor.finish(run.logs)
        end = _judge_end(run, monitor)
    else:
        end = _judge_stopped(run, monitor)
        end.anomalies += told_meanwhile(run, end.anomalies, "S17", "S18")
    anomalies = [*monitor.of(NAME), *end.anomalies]
    checked = Counter(monitor.checked_by(NAME))
    checked.update(end.checked)
    reason = _doubts(monitor, end.undecided)
    return CheckResult(
        NAME,
        _verdict(anomalies, reason),
        tuple(anomalies),
        checked={name: checked[name] for name in sorted(checked, key=place)},
        stats={
            "events": monitor.events,
            "nodes": len(monitor.world.replicas),
            "commits": len(monitor.world.commits),
            "found": dict(sorted((monitor.found_by(NAME) + end.found).items())),
            "gaps": monitor.gaps,
            **_undecided(monitor),
        },
        reason=reason,
    )


def _verdict(anomalies: list[Anomaly], reason: str | None) -> Valid:
    if anomalies:
        return Valid.INVALID
    return Valid.VALID if reason is None else Valid.UNKNOWN


@dataclass(slots=True)
class _End:
    """The verdict of the disks and the history once the run is over."""

    anomalies: list[Anomaly] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    undecided: str | None = None


def _judge_end(run: RunData, monitor: Monitor) -> _End:
    stored, snapshots = judge_stored(run)
    kept, invented = _clients(run, monitor)
    checked = Counter({"S17": kept.checked, "S18": invented.checked, "S23": snapshots})
    end = _End(checked=checked, undecided=kept.undecided)
    for anomalies in (stored, kept.anomalies, invented.anomalies):
        end.anomalies += anomalies[:KEPT_PER_INVARIANT_MAX]
        end.found.update(anomaly.invariant for anomaly in anomalies)
    return end


def _judge_stopped(run: RunData, monitor: Monitor) -> _End:
    """Tell what clients were told so far, if all that was committed is still on the disks."""
    end = _End(undecided="stopped: what the disks held was not judged")
    if committed(run, monitor.world.commits).end < monitor.world.commits.end:
        return end
    kept, invented = _clients(run, monitor)
    for anomaly in (*kept.anomalies, *invented.anomalies):
        end.anomalies.append(anomaly)
        end.found[anomaly.invariant] += 1
    end.checked.update({"S17": kept.checked, "S18": invented.checked})
    return end


def _clients(run: RunData, monitor: Monitor) -> tuple[Survival, Inventions]:
    """Tell what became of the clients' ops, and what nobody asked for."""
    commits, voters = monitor.world.commits, monitor.world.committed_voters()
    names = run.voters if voters is None else tuple(sorted(map(str, voters)))
    records = committed_records(run.logs, commits)
    try:
        hurt = monitor.world.hurt()
        whole = {node: log for node, log in run.logs.items() if node not in hurt}
        kept = survival(run.history, whole, commits, names, records)
        return kept, inventions(run.history, records)
    except HistoryFormatError as error:
        undecided = f"acknowledged ops were not looked up: {error}"
        return Survival(undecided=undecided), Inventions()


def _undecided(monitor: Monitor) -> dict[str, list[str]]:
    """Name the invariants whose events a node cannot tell; nothing, where all tell all."""
    return {"undecided": sorted(monitor.undecided, key=place)} if monitor.undecided else {}


def _doubts(monitor: Monitor, undecided: str | None) -> str | None:
    """Tell why the verdict is not sure, in one line."""
    doubts = [*monitor.gaps[:3]]
    if monitor.gaps_total > len(doubts):
        doubts.append(f"and {monitor.gaps_total - len(doubts)} more gaps in the trace")
    if monitor.undecided:
        doubts.append(f"undecided: {', '.join(sorted(monitor.undecided, key=place))}")
    if not len(monitor.world.commits):
        doubts.append("no high watermark was ever seen: nothing was committed")
    if undecided is not None:
        doubts.append(undecided)
    return "; ".join(doubts) or None
