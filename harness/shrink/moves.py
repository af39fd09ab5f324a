"""Makes smaller candidates for the shrinker, next to each.

Every move makes something smaller and nothing larger, so that no chain of them is endless.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import msgspec

from harness import registry
from harness.contracts.nemesis import Fault
from harness.faults import schedule
from harness.moments.trigger import ANY, EVENT
from harness.spec import RunSpec

AFTER_S = (0.1, 1.0, 3.0)  # how long after the violation a run may end
SHARES = (1 / 4, 1 / 2, 3 / 4, 7 / 8)  # of what is left, when it needs more than that
WINDOWS = (1, 2, 3, 5, 8)  # faults that are tried alone
LEAD_MS = 1_000  # before them
SLACK_S = 2.0  # after them, and for a violation that does not come when it came before
GAPS_MS = (0, 100, 500, 1_000)  # between a fault and the one before
IDLE_MS = (0, 500, 2_000)
DURATIONS_MS = (0, 100, 500, 1_000)
ROUND_MS = (1_000, 500, 100, 10)
CLIENTS = (1, 2, 3)
TARGETS = ("leader", "follower", "observer", "one", "minority", "majority", "all")  # plain first


@dataclass(frozen=True, slots=True)
class Candidate:
    """One run that can be tried: its options and its faults, all data."""

    spec: RunSpec
    faults: tuple[Fault, ...]
    brief: bool = False  # tried without the peace at the end, in which a violation may show

    def with_spec(self, **changes: Any) -> Candidate:
        """Give this candidate with other options."""
        return replace(self, spec=replace(self.spec, **changes))

    def with_fault(self, at: int, fault: Fault) -> Candidate:
        """Give this candidate with another fault at that place."""
        return replace(self, faults=(*self.faults[:at], fault, *self.faults[at + 1 :]))

    def fingerprint(self) -> bytes:
        """Equal for candidates that do the same; the nemeses are those of the faults."""
        spec = {**self.spec.to_json(), "nemeses": []}
        faults = [f.to_json() for f in self.faults]
        return msgspec.json.encode([spec, faults, self.brief], order="sorted")

    def named(self) -> int:
        """The highest number of a node that a fault names; 0 when none does."""
        return max(map(schedule.named, self.faults), default=0)


@dataclass(frozen=True, slots=True)
class Struck:
    """The moment of a fault with a trigger in a run: ms into the main phase, and the node."""

    at_ms: int
    node: str | None


def families(faults: Sequence[Fault]) -> list[str]:
    """The family of each fault, as ``--nemesis`` knows it."""
    return [registry.nemeses.get(fault.nemesis).family for fault in faults]


def shorter_runs(candidate: Candidate, at_s: float | None) -> list[Candidate]:
    """The run ended sooner: just after the violation where that is known, or by shares."""
    limit_s = candidate.spec.time_limit_s
    known = at_s is not None and at_s < limit_s
    least_s = at_s if at_s is not None and known else 0.0
    after_s = {(limit_s - least_s) * share for share in SHARES}.union(AFTER_S if known else ())
    ends = sorted({ceil((least_s + after) * 10) / 10 for after in after_s})
    return [_ending(candidate, end_s) for end_s in ends if 0 < end_s < limit_s]


def _ending(candidate: Candidate, end_s: float) -> Candidate:
    """The run with an earlier end, without the faults after it, but for those that come late."""
    faults = tuple(f for f in candidate.faults if f.late or f.at_ms < end_s * 1_000)
    return replace(candidate.with_spec(time_limit_s=end_s), faults=faults)


def without(candidate: Candidate, places: Collection[int]) -> Candidate:
    """Leave out the faults at these places."""
    kept = (fault for place, fault in enumerate(candidate.faults) if place not in places)
    return replace(candidate, faults=tuple(kept))


def last_faults(candidate: Candidate) -> list[Candidate]:
    """The last few faults alone on a fresh cluster, the fewest first; see ``windows``."""
    count = len(candidate.faults)
    return [_window(candidate, candidate.spec.luck, count - size, count) for size in _sizes(count)]


def windows(candidate: Candidate, luck: int) -> list[Candidate]:
    """A few faults that follow each other, alone on a fresh cluster: the fewest first.

    They keep the times between them, and the run ends some time after them: what came before is
    not simulated, which makes these tries the cheapest there are. Those near the end come first,
    for there the run failed. Faults that come late stay late.
    """
    count = len(candidate.faults)
    return [
        _window(candidate, luck, begin, begin + size)
        for size in _sizes(count)
        for begin in range(count - size, -1, -max(1, size // 2))
    ]


def _sizes(count: int) -> list[int]:
    return [size for size in WINDOWS if size <= count // 2]


def _window(candidate: Candidate, luck: int, begin: int, end: int) -> Candidate:
    chosen = candidate.faults[begin:end]
    timed = [fault.at_ms for fault in chosen if fault.trigger is None]
    sooner = max(0, min(timed, default=0) - LEAD_MS)
    moved = tuple(f if f.late else replace(f, at_ms=max(0, f.at_ms - sooner)) for f in chosen)
    over_ms = max((f.at_ms + f.duration_ms for f in moved if not f.late), default=LEAD_MS)
    limit_s = candidate.spec.time_limit_s
    if all(fault.trigger is None for fault in moved):  # nobody knows when a moment comes
        limit_s = min(limit_s, ceil(over_ms / 100) / 10 + SLACK_S)
    return replace(candidate.with_spec(luck=luck, time_limit_s=limit_s), faults=moved)


def redrawn(candidate: Candidate, luck: int, most_s: float) -> list[Candidate]:
    """Fewer faults with other luck, and some time more for the violation to come, up to a limit.

    Without half of the faults first, then without single ones. A failure that takes a coincidence
    is seldom there at once when a fault is left out, for the rest meets another cluster; but then
    it is there for some other draw of latencies and timeouts.
    """
    count, spec = len(candidate.faults), candidate.spec
    limit_s = min(max(most_s, spec.time_limit_s), round(spec.time_limit_s + SLACK_S, 1))
    base = candidate.with_spec(luck=luck, time_limit_s=limit_s)
    half = count // 2
    halves = [range(half), range(half, count)] if half > 1 else []
    singles = [range(at, at + 1) for at in range(count)]
    return [without(base, places) for places in (*halves, *singles)]


def plainer_tapes(candidate: Candidate) -> list[Candidate]:
    """Propose to draw luck anew nowhere, or at one event less."""
    tape = candidate.spec.tape
    fewer = [tape[:at] + tape[at + 1 :] for at in range(len(tape))] if len(tape) > 1 else []
    return [candidate.with_spec(tape=kept) for kept in ((), *fewer)] if tape else []


def fewer_observers(candidate: Candidate) -> list[Candidate]:
    """Propose none, one, ... observers, but never fewer than the nodes that faults name."""
    spec = candidate.spec
    least = max(0, candidate.named() - spec.voters)
    return [candidate.with_spec(observers=n) for n in range(least, spec.observers)]


def fewer_voters(candidate: Candidate) -> list[Candidate]:
    """Propose one, two, ... voters, but never fewer than the nodes that faults name."""
    spec = candidate.spec
    least = max(1, candidate.named() - spec.observers)
    return [candidate.with_spec(voters=n) for n in range(least, spec.voters)]


def fewer_clients(candidate: Candidate) -> list[Candidate]:
    """Propose one, two, three or half as many clients."""
    now = candidate.spec.concurrency
    counts = sorted({n for n in (*CLIENTS, now // 2) if 0 < n < now})
    return [candidate.with_spec(concurrency=n) for n in counts]


def closer(candidate: Candidate) -> list[Candidate]:
    """All faults sooner at once: the time in which there is none cut to so much each."""
    tried = (replace(candidate, faults=_closer(candidate.faults, most)) for most in IDLE_MS)
    return [each for each in tried if each.faults != candidate.faults]


def _closer(faults: tuple[Fault, ...], idle_ms: int) -> tuple[Fault, ...]:
    moved: list[Fault] = []
    sooner = end = 0
    for fault in faults:
        if fault.late or fault.trigger is not None:
            moved.append(fault)
            continue
        at = min(fault.at_ms - sooner, end + idle_ms)
        sooner = fault.at_ms - at
        end = max(end, at + fault.duration_ms)
        moved.append(replace(fault, at_ms=at))
    return tuple(moved)


def earlier(candidate: Candidate, at: int) -> list[Candidate]:
    """The fault and all after it sooner: closer to the fault before it, or at a rounder moment."""
    faults = candidate.faults
    if faults[at].late or faults[at].trigger:  # it comes when others are over, or at its moment
        return []
    now = faults[at].at_ms
    floor = faults[at - 1].at_ms if at else 0
    gap = now - floor
    moments = {floor + ms for ms in GAPS_MS} | {floor + gap // 2}
    moments |= {now // unit * unit for unit in ROUND_MS}
    return [
        replace(
            candidate,
            faults=(
                *faults[:at],
                *(f if f.trigger else _sooner(f, now - moment) for f in faults[at:]),
            ),
        )
        for moment in sorted(moments, key=lambda ms: (ms, -ms % 100))
        if floor <= moment < now
    ]


def _sooner(fault: Fault, by_ms: int) -> Fault:
    return replace(fault, at_ms=fault.at_ms - by_ms)


def timed(candidate: Candidate, at: int, struck: Struck) -> Candidate:
    """The fault at the time at which its moment came, at the node of that."""
    fault = candidate.faults[at]
    params = {k: struck.node if v == EVENT else v for k, v in fault.params.items()}
    fault = replace(fault, at_ms=struck.at_ms, trigger=None, params=params)
    faults = candidate.with_fault(at, fault).faults
    return replace(candidate, faults=tuple(sorted(faults, key=lambda f: (f.at_ms, f.id))))


def sooner(candidate: Candidate, at: int) -> list[Candidate]:
    """The fault at an earlier or a plainer moment: with a lower number, or fewer conditions."""
    fault = candidate.faults[at]
    trigger = fault.trigger
    if trigger is None:
        return []
    plain = [
        replace(trigger, until_ms=None),
        replace(trigger, during=None),
        replace(trigger, after=None),
        replace(trigger, role=ANY),
    ]
    numbers = sorted({1, trigger.nth // 2, trigger.nth - 1})
    plain += [replace(trigger, nth=number) for number in numbers if 0 < number < trigger.nth]
    return [
        candidate.with_fault(at, replace(fault, trigger=each)) for each in plain if each != trigger
    ]


def briefer(candidate: Candidate, at: int) -> list[Candidate]:
    """The fault for a shorter time, or a rounder one."""
    fault = candidate.faults[at]
    now = fault.duration_ms
    lengths = {*DURATIONS_MS, now // 2, *(now // unit * unit for unit in ROUND_MS)}
    return [
        candidate.with_fault(at, replace(fault, duration_ms=ms))
        for ms in sorted(lengths)
        if ms < now
    ]


def plainer(candidate: Candidate, at: int) -> list[Candidate]:
    """The fault aimed at a plainer target."""
    fault = candidate.faults[at]
    target = fault.params.get("target")
    if target not in TARGETS:
        return []
    return [
        candidate.with_fault(at, replace(fault, params={**fault.params, "target": plain}))
        for plain in TARGETS[: TARGETS.index(target)]
    ]


def lists(candidate: Candidate, at: int) -> list[str]:
    """Name the fault's params that are lists of several things, such as what is asked."""
    params = candidate.faults[at].params
    return [name for name, value in params.items() if isinstance(value, list) and len(value) > 1]


def with_items(candidate: Candidate, at: int, name: str, kept: Sequence[Any]) -> Candidate:
    """Give the fault a param that is a list of these."""
    fault = candidate.faults[at]
    return candidate.with_fault(at, replace(fault, params={**fault.params, name: list(kept)}))
