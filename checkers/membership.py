"""``membership``: changes of the voters that clients were told are done, against what is left.

Source: KIP-853; L6 and S17 of the catalogue. What the log itself must keep to (S27 to S30) is the
matter of ``consensus``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from checkers.invariants.acknowledged import AcknowledgedAfterCommit
from checkers.invariants.liveness import L6
from checkers.replay.trace import Event
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.registry import checkers
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "membership"
KEPT, ENDED = "S17", "L6"
REMOVE, RESTORE, LOOK = "remove-voter", "restore", "voters"
ADDS = ("add-voter", RESTORE)
AGAIN = " again, which nobody asked for"  # in an anomaly's message


@checkers.register(NAME, judges=(AcknowledgedAfterCommit.meaning, L6))
def membership(run: RunData) -> CheckResult:
    """The last confirmed change of each voter is in force, and all voters are back. O(n k)."""
    every = [
        interval
        for interval in run.history.intervals()
        if isinstance(interval.invocation.value, dict) and "node" in interval.invocation.value
    ]
    changes = [i for i in every if i.invocation.f in (REMOVE, *ADDS)]
    looks = [i for i in run.history.intervals() if i.invocation.f == LOOK and i.outcome == "ok"]
    restores = [i for i in changes if i.invocation.f == RESTORE]
    anomalies = [_not_ended(i) for i in restores if i.outcome != "ok"]
    nodes = sorted({i.invocation.value["node"] for i in changes})
    for look in looks:
        anomalies += [a for node in nodes for a in _of_node(node, look, changes, run.events)]
    reason = None
    if not looks or not any(i.outcome == "ok" for i in changes):
        reason = "no change was confirmed, or nobody looked at the voters: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={KEPT: len(looks) * len(nodes), ENDED: len(restores)},
        stats={"confirmed": sum(i.outcome == "ok" for i in changes)},
        reason=reason,
    )


def _of_node(
    node: str, look: Interval, changes: Sequence[Interval], events: Mapping[str, Sequence[Event]]
) -> Iterable[Anomaly]:
    """The last change of a node that was confirmed before a look, if none may have followed."""
    seen = look.completion
    assert seen is not None  # noqa: S101 - it was ok
    mine = [
        i
        for i in changes
        if i.invocation.value["node"] == node
        and i.outcome != "fail"
        and i.invocation.time_ns < seen.time_ns
    ]
    for interval in mine:
        end = interval.completion
        if end is None or end.type != "ok" or end.time_ns > look.invocation.time_ns:
            continue
        later = any(_may_follow(other, interval) for other in mine if other is not interval)
        is_voter = node in seen.value
        if not later and is_voter == (interval.invocation.f == REMOVE):
            was = "added, and is no voter"
            if is_voter:
                was = "removed, and is a voter"
                if _was_none(node, interval.invocation.time_ns, seen.time_ns, events):
                    was += AGAIN
            yield Anomaly(
                KEPT,
                f"{node} was {was} (op {end.index}, looked at by op {seen.index})",
                ops=(interval.invocation.index, end.index, seen.index),
                time_ns=seen.time_ns,
            )


def _was_none(node: str, begin_ns: int, end_ns: int, events: Mapping[str, Sequence[Event]]) -> bool:
    """Tell whether a node was in no voter set that somebody told of meanwhile."""
    return any(
        event["t"] == "voters"
        and begin_ns <= event["rx_ns"] <= end_ns
        and all(node != f"n{key[0]}" for key in event["set"])
        for of_node in events.values()
        for event in of_node
    )


def _may_follow(other: Interval, interval: Interval) -> bool:
    """Tell whether ``other`` may have taken effect after ``interval`` did."""
    end = other.completion
    if other.outcome == "info" or end is None:
        return True
    return end.time_ns > interval.invocation.time_ns


def _not_ended(interval: Interval) -> Anomaly:
    end = interval.completion or interval.invocation
    return Anomaly(
        ENDED,
        f"{interval.invocation.value['node']} did not come back as a voter in peace: {end.error}",
        ops=(interval.invocation.index, end.index),
        time_ns=end.time_ns,
    )
