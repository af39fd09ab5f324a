"""Makes new candidates of known ones: data in, data out.

Faults are moved onto moments at which something rare happened, made to wait for an event, aimed at
other nodes, prolonged, shortened, added, dropped and taken from other runs; settings and
workload are taken from other seeds; and the same is tried with other luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Final

from harness import registry
from harness.contracts.nemesis import Fault
from harness.faults import aimed, schedule
from harness.faults.choice import misfit
from harness.moments.trigger import EVENT
from harness.sessions.swarm import QUORUM, unfit
from harness.shrink.moves import Candidate
from harness.spec import RunSpec

MOVES_MAX = 3  # in one step from a run to the next
FAULTS_MAX = 40
LUCK_MAX = 1 << 30
BEFORE_MS, AFTER_MS = 300, 100  # about a moment: a fault takes its time to strike
COUNTED_SHARE = 0.5  # of the moves of a fault that waits: which event of its kind it waits for
COUNTS: Final = (-1, 1, 1, 2, 5)
FACTORS: Final = (0.25, 0.5, 2.0, 4.0)  # of a fault's duration
DURATION_MS: Final = (50, 20_000)  # from, to
TAIL_MS = 1_000  # quiet behind the last fault
WATCHED_MS = 500  # after the fault of a run that is cut short
TIME_MAX_S = 120.0


@dataclass(frozen=True, slots=True)
class Stuff:
    """The material of a change."""

    moments: Sequence[int]  # at which something rare happened, ms since the schedule's start
    other: Candidate  # a run that is kept, too
    fresh: Candidate  # of a new seed of the swarm
    rng: Random


Move = Callable[[Candidate, Stuff], Candidate]


def changed(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Give another candidate: one to three moves away, with a time limit that its faults fit in."""
    for _ in range(stuff.rng.randint(1, MOVES_MAX)):
        moves = WITH_FAULTS if candidate.faults else WITHOUT_FAULTS
        move = stuff.rng.choices(list(moves), list(moves.values()))[0]
        candidate = move(candidate, stuff)
    return _tidy(candidate, stuff)


def cut_short(candidate: Candidate) -> Candidate:
    """Give the beginning of a run: up to its first fault by time, and a little longer.

    Of the faults that wait for an event the first is kept, too, if it can come so soon. Faults that
    come late stay late. A run without faults by time stays as it is.
    """
    by_time = [fault for fault in candidate.faults if not fault.late and fault.trigger is None]
    if not by_time:
        return candidate
    first = min(by_time, key=lambda fault: fault.at_ms)
    end_ms = first.at_ms + first.duration_ms + WATCHED_MS
    limit_s = min(candidate.spec.time_limit_s, _limit_s(end_ms))
    waiting = [fault for fault in candidate.faults if not fault.late and fault.trigger is not None]
    late = [fault for fault in candidate.faults if fault.late]
    return _in_order(candidate.spec, (first, *waiting[:1], *late), limit_s)


def _shift(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Move a fault onto a rare moment, or anywhere where there is none.

    One that waits for an event waits for a later or an earlier one, or from another moment on.
    """
    rng, at = stuff.rng, stuff.rng.randrange(len(candidate.faults))
    fault = candidate.faults[at]
    if fault.trigger is not None and rng.random() < COUNTED_SHARE:
        nth = max(1, fault.trigger.nth + rng.choice(COUNTS))
        return candidate.with_fault(at, replace(fault, trigger=replace(fault.trigger, nth=nth)))
    if stuff.moments:
        at_ms = rng.choice(stuff.moments) + rng.randint(-BEFORE_MS, AFTER_MS)
    else:
        at_ms = rng.randint(0, ceil(candidate.spec.time_limit_s * 1_000))
    return candidate.with_fault(at, replace(fault, at_ms=max(0, at_ms), late=False))


def _await(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Add a fault that waits for an event, of a kind that one of the two runs has."""
    names = {fault.nemesis for fault in (*candidate.faults, *stuff.fresh.faults)}
    nemeses = [(name, registry.nemeses.get(name)()) for name in sorted(names)]
    spec, seed = candidate.spec, stuff.rng.randrange(LUCK_MAX)
    pace = schedule.paced(spec.pace)
    added = aimed.build(seed, 1, nemeses, spec.time_limit_s, pace, len(candidate.faults))
    return replace(candidate, faults=(*candidate.faults, *added))


def _aim(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Aim a fault anew: its nemesis draws whom it strikes, and how, be it where its event was."""
    at = stuff.rng.randrange(len(candidate.faults))
    fault = candidate.faults[at]
    params = dict(registry.nemeses.get(fault.nemesis)().params(stuff.rng))
    if fault.trigger is not None and "target" in params and stuff.rng.random() < COUNTED_SHARE:
        params["target"] = EVENT
    return candidate.with_fault(at, replace(fault, params=params, draw=stuff.rng.random()))


def _stretch(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Prolong or shorten a fault."""
    at = stuff.rng.randrange(len(candidate.faults))
    fault = candidate.faults[at]
    low, high = DURATION_MS
    duration_ms = int(fault.duration_ms * stuff.rng.choice(FACTORS))
    return candidate.with_fault(at, replace(fault, duration_ms=min(max(duration_ms, low), high)))


def _drop(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Leave a fault out."""
    at = stuff.rng.randrange(len(candidate.faults))
    return replace(candidate, faults=(*candidate.faults[:at], *candidate.faults[at + 1 :]))


def _double(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Let a fault strike twice: the second time at a rare moment."""
    twice = replace(candidate, faults=(*candidate.faults, stuff.rng.choice(candidate.faults)))
    once = replace(stuff, moments=stuff.moments or (twice.faults[-1].at_ms,))
    fault = _shift(replace(twice, faults=twice.faults[-1:]), once).faults[0]
    return replace(candidate, faults=(*candidate.faults, fault))


def _add(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Take one fault of a fresh schedule, where it has any."""
    if not stuff.fresh.faults:
        return candidate
    return replace(candidate, faults=(*candidate.faults, stuff.rng.choice(stuff.fresh.faults)))


def _splice(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Go on with the faults of another run from some moment on."""
    cut_ms = stuff.rng.randint(0, ceil(candidate.spec.time_limit_s * 1_000))
    begin = tuple(f for f in candidate.faults if f.at_ms < cut_ms and not f.late)
    end = tuple(f for f in stuff.other.faults if f.at_ms >= cut_ms and not f.late)
    return replace(candidate, faults=begin + end)


def _luck(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Draw latencies, losses and timeouts anew."""
    return candidate.with_spec(luck=stuff.rng.randrange(1, LUCK_MAX))


def _settings(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Take one setting of the fresh run."""
    names = set(stuff.fresh.spec.settings)
    if candidate.spec.workload == "membership":
        names.discard(QUORUM)  # there must be voters to change
    if not names:
        return candidate
    name = stuff.rng.choice(sorted(names))
    settings = {**candidate.spec.settings, name: stuff.fresh.spec.settings[name]}
    return candidate.with_spec(settings=settings)


def _load(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Take workload, clients and rate of the fresh run, with the cluster and settings they need."""
    spec, given = stuff.fresh.spec, candidate.spec
    return candidate.with_spec(
        workload=spec.workload,
        concurrency=spec.concurrency,
        rate_hz=spec.rate_hz,
        voters=spec.voters,
        observers=spec.observers,
        settings=spec.settings if spec.workload != given.workload else given.settings,
    )


WITH_FAULTS: Final[dict[Move, float]] = {
    _shift: 4,
    _await: 2,
    _aim: 2,
    _stretch: 1.5,
    _double: 1,
    _drop: 1,
    _add: 1.5,
    _splice: 1.5,
    _luck: 1.5,
    _settings: 0.7,
    _load: 0.5,
}
WITHOUT_FAULTS: Final[dict[Move, float]] = {
    _add: 3,
    _await: 2,
    _luck: 1,
    _settings: 0.7,
    _load: 0.5,
}


def _tidy(candidate: Candidate, stuff: Stuff) -> Candidate:
    """Put the faults in order, drop those that the run cannot have, and give them time."""
    spec = candidate.spec
    fit = [fault for fault in candidate.faults if _fits(fault, spec)]
    while len(fit) > FAULTS_MAX:
        fit.pop(stuff.rng.randrange(len(fit)))
    timed = [fault for fault in fit if not fault.late and fault.trigger is None]
    end_ms = max((fault.at_ms + fault.duration_ms for fault in timed), default=0)
    return _in_order(spec, fit, min(max(spec.time_limit_s, _limit_s(end_ms)), TIME_MAX_S))


def _limit_s(end_ms: int) -> float:
    """Tell how long a run is whose last fault ends then."""
    return ceil((end_ms + TAIL_MS) / 100) / 10


def _in_order(spec: RunSpec, faults: Iterable[Fault], limit_s: float) -> Candidate:
    """Make a run of so many seconds, without the faults that it has no time for."""
    last_ms = int(limit_s * 1_000) - TAIL_MS
    fit = [f for f in (_in_time(fault, last_ms) for fault in faults) if f is not None]
    ordered = sorted(fit, key=lambda fault: (fault.late, fault.at_ms))
    numbered = tuple(replace(fault, id=number) for number, fault in enumerate(ordered))
    names = tuple(dict.fromkeys(fault.nemesis for fault in numbered))
    spec = replace(spec, time_limit_s=limit_s, nemeses=names or ("none",), asked=None)
    return Candidate(spec, numbered)


def _in_time(fault: Fault, last_ms: int) -> Fault | None:
    """Give a fault that begins before ``last_ms``, and ends before it if it waits for an event."""
    if fault.late:
        return fault
    if fault.trigger is None:
        return fault if fault.at_ms < last_ms else None
    until_ms = last_ms - fault.duration_ms
    trigger = replace(fault.trigger, until_ms=until_ms)
    at_ms = min(fault.at_ms, until_ms)
    return None if until_ms < 0 else replace(fault, at_ms=at_ms, trigger=trigger)


def _fits(fault: Fault, spec: RunSpec) -> bool:
    nemesis = registry.nemeses.get(fault.nemesis)()
    return not misfit(nemesis, spec) and nemesis.family not in unfit(spec.workload)
