"""``describe``: what leaders told of their quorum, against what they had done by then.

All that DescribeQuorum tells is of one moment between the question and the answer. What was traced
before the question bounds it from below, what was traced up to the answer from above.
Source: KIP-595 and KIP-836 "DescribeQuorum".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from checkers.invariants.quorum import asker
from checkers.invariants.reads import ReadsConfirmed
from checkers.replay.trace import Event, Whole
from checkers.replay.voter_sets import VoterKey, VoterKeys, difference, keys_of, told
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.registry import checkers
from harness.spec import SIM
from harness.verdict import Anomaly, CheckResult, Valid

NAME = "describe"
TRUTH = "S34"
F = "describe-quorum"
FOREVER_NS = 1 << 63  # no event comes as late
LATE_NS = 1_000_000_000  # of a trace that is read from a file: when it comes to us
Told = Mapping[str, Any]
Step = tuple[int, int]  # since when, in ns of the harness's clock; a number that only grows


@dataclass(slots=True)
class Reign:
    """The trace of one leader in one epoch; each event has the time when it came to us."""

    hwms: list[Step] = field(default_factory=list)
    ends: list[Step] = field(default_factory=list)
    fetches: dict[VoterKey, list[Step]] = field(default_factory=lambda: defaultdict(list))
    parked: dict[VoterKey, list[Step]] = field(default_factory=lambda: defaultdict(list))
    sets: list[tuple[int, VoterKeys]] = field(default_factory=list)


@checkers.register(NAME, needs=("events",), judges=(ReadsConfirmed.meaning,))
def describe(run: RunData) -> CheckResult:
    """DescribeQuorum answers with the true high watermark, log ends and voters. O(n k)."""
    asked = [i for i in run.history.intervals() if i.invocation.f == F]
    answered = [i for i in asked if i.outcome == "ok" and i.completion is not None]
    trace = Whole.of(run.events)
    if trace.intake.gaps:
        return CheckResult(NAME, Valid.UNKNOWN, reason=trace.intake.gaps[0])
    reigns = _reigns(trace.events)
    late_ns = 0 if run.spec.env == SIM else LATE_NS
    anomalies: list[Anomaly] = []
    checked = 0
    for interval in answered:
        assert interval.completion is not None  # noqa: S101 - it was answered
        for view in interval.completion.value:
            checked += 1
            anomalies += _judge(view, interval, reigns, late_ns)
    reason = None if checked else "no leader told of its quorum: nothing was judged"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if anomalies else verdict,
        tuple(anomalies),
        checked={TRUTH: checked},
        stats={"asked": len(asked)},
        reason=reason,
    )


def _reigns(events: Sequence[Event]) -> dict[tuple[int, int | None], Reign]:
    """Collect the reigns by leader and epoch."""
    reigns: dict[tuple[int, int | None], Reign] = {}
    for event in events:
        key = event["node"], event.get("ep")
        if event["t"] == "elected":
            reigns[key] = Reign()
            _took_over(event, reigns[key])
        elif key in reigns:
            _went_on(event, reigns[key])
    return reigns


def _took_over(event: Event, reign: Reign) -> None:
    reign.ends.append((event["rx_ns"], event["es"]))
    reign.sets.append((event["rx_ns"], keys_of(event.get("voters")) or ()))


def _went_on(event: Event, reign: Reign) -> None:
    at_ns = event["rx_ns"]
    match event["t"]:
        case "append":
            reign.ends.append((at_ns, event["last"] + 1))
        case "hwm" if event["as"] == "leader":
            reign.hwms.append((at_ns, event["v"]))
        case "voters":
            reign.sets.append((at_ns, keys_of(event["set"]) or ()))
        case "fetch_rx" if event["res"] == "ok":
            key = asker(event)
            if key is not None and isinstance(event.get("off"), int):
                reign.fetches[key].append((at_ns, event["off"]))
                if event["off"] == event.get("end"):
                    reign.parked[key].append((at_ns, event["off"]))
        case _:
            pass


def _judge(
    view: Told, interval: Interval, reigns: Mapping[tuple[int, int | None], Reign], late_ns: int
) -> Iterator[Anomaly]:
    """Tell what a leader told that was not so at any time while it was asked."""
    assert interval.completion is not None  # noqa: S101 - it was answered
    began_ns, ended_ns = interval.invocation.time_ns, interval.completion.time_ns + late_ns
    leader, epoch = view["leader"], view["epoch"]
    reign = reigns.get((leader, epoch))
    if reign is None:
        yield _lie(view, interval, "which it never led")
        return
    low, high = _bounds(reign.hwms, began_ns, ended_ns)
    if not _is_within(view["hwm"], low, high):
        yield _lie(view, interval, f"high watermark {view['hwm']}: it was {low} to {high}")
    ends = dict(view["ends"])
    low, high = _bounds(reign.ends, began_ns, ended_ns)
    if not _is_within(ends.pop(leader, None), low, high):
        yield _lie(view, interval, f"log end {dict(view['ends'])[leader]}: it was {low} to {high}")
    for node, end in sorted(ends.items()):
        possible = _fetched(reign, node, began_ns, ended_ns)
        if end not in possible and end not in _parked(reign, node, began_ns, ended_ns):
            yield _lie(view, interval, f"that n{node} is at {end}, of {sorted(possible, key=str)}")
    voters, sets = keys_of(view["voters"]) or (), _in(reign.sets, began_ns, ended_ns)
    if all(difference(voters, each) for each in sets):
        known = " or ".join(map(told, sets))
        yield _lie(view, interval, f"the voters {told(voters)}: they were {known}")


def _lie(view: Told, interval: Interval, what: str) -> Anomaly:
    end = interval.completion
    assert end is not None  # noqa: S101 - it was answered
    return Anomaly(
        TRUTH,
        f"n{view['leader']} told of epoch {view['epoch']} (op {end.index}) {what}",
        ops=(interval.invocation.index, end.index),
        time_ns=end.time_ns,
    )


def _in(steps: Sequence[tuple[int, Any]], began_ns: int, ended_ns: int) -> list[Any]:
    """Tell what held at some time between: the last before it, and all that came during it."""
    before = [what for at_ns, what in steps if at_ns <= began_ns]
    return [*before[-1:], *[what for at_ns, what in steps if began_ns < at_ns <= ended_ns]]


def _bounds(steps: Sequence[Step], began_ns: int, ended_ns: int) -> tuple[int | None, int | None]:
    """The least and the most of a number that only grows; None = there was none yet."""
    low = max((value for at_ns, value in steps if at_ns <= began_ns), default=None)
    return low, max((value for at_ns, value in steps if at_ns <= ended_ns), default=None)


def _is_within(value: int | None, low: int | None, high: int | None) -> bool:
    if value is None:
        return low is None
    return high is not None and (low is None or low <= value) and value <= high


def _fetched(reign: Reign, node: int, began_ns: int, ended_ns: int) -> set[int | None]:
    """Tell where a node may have been, as far as the leader knew: nowhere before its first fetch.

    Nor is it anywhere to a leader that has learned of its disk just now (kraft.version 1).
    """
    of_node = [steps for key, steps in reign.fetches.items() if key.node == node]
    found: set[int | None] = {end for s in of_node for end in _in(s, began_ns, ended_ns)}
    first_ns = min((steps[0][0] for steps in of_node), default=ended_ns)
    return found | {None} if first_ns > began_ns or len(reign.sets) > 1 else found


def _parked(reign: Reign, node: int, began_ns: int, ended_ns: int) -> set[int | None]:
    """Tell where a node may have been by a Fetch that waited for the records of its answer.

    A leader reads the offset of such a Fetch again when it answers, at the latest when it appends:
    over that of one which came later and asked for less, as the network may repeat an old one. It
    stays until the next one comes.
    """
    found = set[int | None]()
    for key, waiting in reign.parked.items():
        if key.node != node:
            continue
        for at_ns, offset in waiting:
            over_ns = _next(reign.fetches[key], _next(reign.ends, at_ns))
            if at_ns <= ended_ns and began_ns <= over_ns:
                found.add(offset)
    return found


def _next(steps: Sequence[Step], after_ns: int) -> int:
    """When the first step after a time came; FOREVER_NS: none did."""
    later = bisect_right(steps, after_ns, key=itemgetter(0))
    return steps[later][0] if later < len(steps) else FOREVER_NS
