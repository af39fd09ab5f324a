"""``observers``: what nodes publish is the committed log, and in the end all agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from checkers.committed.fold import Folded, MakeFold, MetadataFold
from checkers.invariants.applying import AtomicBatches
from checkers.invariants.balance import L14
from checkers.invariants.controller_answers import C17
from checkers.invariants.cordons import C18
from checkers.invariants.disks import C15
from checkers.invariants.eligible import C13, C14
from checkers.invariants.granted import C5
from checkers.invariants.images import C8, C9, ImageChecks, snapshot_on_disk
from checkers.invariants.liveness import L8, L12
from checkers.invariants.local_reads import CommitTimes
from checkers.invariants.metadata_log import C2, C11
from checkers.liveness.balancing import led_by_others
from checkers.liveness.heartbeats import Controllers, forgotten, kept_disks
from checkers.monitor.catalogue import meanings_of
from checkers.monitor.convergence import Convergence, converged
from checkers.replay.clocks import clock_of, kept_time
from checkers.watches.invariants import content_of, known_log, watched
from harness.contracts.checker import RunData
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid
from node.metadata.image import ImageError
from node.metadata.records import RecordError

NAME = "observers"
STOPPED = "stopped: what the disks held, and whether all agree, was not judged"


JUDGED = (C2, C5, C8, C9, C11, C13, C14, C15, C17, C18, L8, L12, L14, AtomicBatches.meaning)


@checkers.register(
    NAME, needs=("events", "records", "images"), judges=(*meanings_of(NAME), *JUDGED)
)
def observers(run: RunData) -> CheckResult:
    """Images follow the committed log (C8), and all nodes converge (L8).

    Brokers, their sessions and their partitions are judged too (C1 to C7, C10 to C15, C18 and C19),
    and what controllers answer (C17). O(n log n). UNKNOWN without events, and when nothing could be
    compared. Of a simulation that was stopped only the events are judged.
    """
    return judge(run, MetadataFold)


def judge(run: RunData, make_fold: MakeFold) -> CheckResult:
    """Judge with another fold, for systems whose state is not our metadata image."""
    monitor = watched(run)
    if not monitor.events:
        return CheckResult(NAME, Valid.UNKNOWN, reason="no node left any event to judge")
    stopped = run.history.stopped is not None
    known = known_log(run, monitor)
    content = content_of(run, monitor, known, make_fold)
    folded, images = content.folded, content.images
    anomalies = sorted(content.anomalies, key=lambda each: (each.invariant, each.message))
    anomalies += () if stopped else _snapshots(run, images, make_fold)
    commits = CommitTimes(monitor.told("commits"), clock_of(run))
    balanced, late = led_by_others(content.stretches, commits, run)
    anomalies += late
    looked_at = Counter[str]()
    if kept_time(run):
        controllers = Controllers(*map(monitor.told, ("claims", "contacts", "appends")))
        looked_at["C12"], silent = forgotten(content.services, controllers, run.spec.settings)
        looked_at["C15"], kept = kept_disks(content.disks, controllers, run.history, clock_of(run))
        anomalies += [*silent, *kept]
    anomalies += monitor.of(NAME)
    end = Convergence(undecided=STOPPED) if stopped else converged(run, monitor)
    anomalies += end.anomalies
    unread = None if content.unread is None else (content.end, content.unread)
    reason = _doubts(monitor.gaps, folded, images, end, unread)
    unsure = Valid.VALID if reason is None else Valid.UNKNOWN
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else unsure,
        tuple(anomalies),
        checked={
            **_sums(monitor.checked_by(NAME), content.checked, looked_at),
            "L8": end.checked,
            "L14": balanced,
        },
        stats={"folded_from": folded.begin, "folded_to": folded.end},
        reason=reason,
    )


def _snapshots(run: RunData, images: ImageChecks, make_fold: MakeFold) -> Iterator[Anomaly]:
    """Tell what the snapshots on the disks hold; whether one can be read at all is for S23."""
    for node, snapshots in sorted(run.snapshots.items()):
        for snapshot in snapshots:
            if snapshot.error is None:
                try:
                    seen = snapshot_on_disk(snapshot, make_fold)
                except (RecordError, ImageError) as error:
                    where = f"the snapshot of {node} at offset {snapshot.end}"
                    yield Anomaly("C8", f"{where} is no state: {error}")
                    continue
                yield from images.judge_snapshot(node, seen)


def _sums(*counts: Mapping[str, int]) -> dict[str, int]:
    """Tell what each invariant examined, by several who looked; in the order of the catalogue."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items(), key=lambda item: int(item[0][1:])))


def _doubts(
    gaps: Sequence[str],
    folded: Folded,
    images: ImageChecks,
    end: Convergence,
    unread: tuple[int, int] | None,
) -> str | None:
    doubts = list(gaps[:3])
    if unread is not None:
        doubts.append(
            f"of the committed log, {unread[1]} offsets, no more than {unread[0]} could be read"
        )
    if not images.checked:
        doubts.append("no node told of any image")
    if folded.unreadable is not None:
        doubts.append(f"the committed log could not be folded: {folded.unreadable}")
    elif not folded.end and images.checked:
        doubts.append("no final log of a voter to fold: images were only compared to each other")
    if end.undecided is not None:
        doubts.append(end.undecided)
    return "; ".join(doubts) or None
