"""``observers``: what nodes publish is the committed log, and in the end all agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from checkers.invariants.convergence import Convergence, converged
from checkers.invariants.fold import Folded, MakeFold, MetadataFold, fold, reference_log
from checkers.invariants.images import ImageChecks
from checkers.invariants.local_reads import Starts, Written, judge_local_reads
from checkers.invariants.trace import Event, Intake, merged
from harness.protocols import RunData
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "observers"


@checkers.register(NAME, needs=("events", "records"))
def observers(run: RunData) -> CheckResult:
    """Images are folds of the committed log (C8), local reads never go back, all converge (L8).

    O(n log n). UNKNOWN without events, and when nothing could be compared.
    """
    return judge(run, MetadataFold)


def judge(run: RunData, make_fold: MakeFold) -> CheckResult:
    """The same with another fold, for systems whose state is not our metadata image."""
    intake = Intake()
    whole = [event for event in merged(run.events) if intake.admit(event)]
    if not whole:
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node left any event to judge")
    log = reference_log(run)
    folded = fold(log, _committed_end(whole), make_fold)
    images = ImageChecks(folded)
    anomalies = [Anomaly("C8", folded.misfit)] if folded.misfit else []
    for event in whole:
        anomalies += images.feed(event)
    intervals = run.history.intervals()
    anomalies += judge_local_reads(intervals, Written(log, intervals), Starts(run.events))
    end = converged(run, _by_node(whole))
    anomalies += end.anomalies
    reads = sum(i.invocation.f == "local-read" and i.outcome == "ok" for i in intervals)
    reason = _doubts(intake, folded, images, end)
    unsure = Valid.VALID if reason is None else Valid.UNKNOWN
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else unsure,
        tuple(anomalies),
        checked={"C8": images.checked, "L8": end.checked, "local-reads": reads},
        stats={"folded_to": folded.end},
        reason=reason,
    )


def _committed_end(events: Sequence[Event]) -> int:
    return max((event["v"] for event in events if event["t"] == "hwm"), default=0)


def _by_node(events: Sequence[Event]) -> Mapping[str, Sequence[Event]]:
    by_node: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_node[f"n{event['node']}"].append(event)
    return by_node


def _doubts(intake: Intake, folded: Folded, images: ImageChecks, end: Convergence) -> str | None:
    doubts = intake.gaps[:3]
    if not images.checked:
        doubts.append("no node told of any image")
    if folded.unreadable is not None:
        doubts.append(f"the committed log could not be folded: {folded.unreadable}")
    elif not folded.end and images.checked:
        doubts.append("no final log of a voter to fold: images were only compared to each other")
    if end.undecided is not None:
        doubts.append(end.undecided)
    return "; ".join(doubts) or None
