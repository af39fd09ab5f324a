"""Fault schedules: which fault when, as data drawn from a seed, saved one fault a line.

A schedule is a list of faults, one after another with gaps between them, and quiet at its start and
end; its pace says how long they last, and whether two may be in force at a time. A fault is never
shortened: it has a place only where the longest of its pace would end in time. Each nemesis comes
once, in random order, before any comes again; afterwards they are drawn by weight. Those that there
is no place for come late: after the run's time, one by one (``harness.run.player``). Equal input
gives an equal schedule. A run may add late faults of its own, so that what is stored is all that it
played.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from math import ceil
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

import msgspec

from harness import registry, seeds
from harness.contracts.nemesis import Fault, Nemesis
from harness.errors import HarnessError, UsageError
from harness.moments.trigger import trigger_from_json
from harness.spec import SIM, STEADY, RunSpec

_NODE = re.compile(r"n([1-9]\d*)")
Span = tuple[int, int]  # from, to: both inclusive, ms


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """The density of a schedule; all times in milliseconds."""

    lead_ms: int = 1_000  # quiet at the start
    fault_ms: Span = (1_000, 2_500)
    gap_ms: Span = (800, 1_500)  # quiet between the end of a fault and the next one
    tail_ms: int = 1_000  # quiet at the end, at least
    lanes: int = 1  # faults that may be in force at a time
    weights: Mapping[str, float] = field(default_factory=dict)  # by nemesis; 1 when not named

    def __post_init__(self) -> None:
        """Refuse spans that cannot be drawn from."""
        for name, (low, high) in (("fault_ms", self.fault_ms), ("gap_ms", self.gap_ms)):
            if not 0 <= low <= high:
                raise HarnessError(f"{name} is ({low}, {high}), want 0 <= from <= to")
        if self.lead_ms < 0 or self.tail_ms < 0:
            raise HarnessError("lead_ms and tail_ms must not be negative")
        if self.lanes < 1:
            raise HarnessError(f"lanes is {self.lanes}, want 1 or more")
        bad = {name: weight for name, weight in self.weights.items() if weight <= 0}
        if bad:
            raise HarnessError(f"weights must be more than 0: {bad}")


# What silences nodes is what more time changes most.
_SILENCING: Final[Mapping[str, float]] = {
    **dict.fromkeys(("kill", "pause", "stop", "power"), 4.0),
    **dict.fromkeys(("partition-halves", "partition-isolate-one", "partition-one-way"), 2.0),
}


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer of the nodes, and how long it may be until a check wants to see its effect."""

    setting: str
    usual_ms: int  # 0: it is off
    times: float
    more_ms: int


# A session as C12 allows it, with its grace; four elections that nobody wins; a fetch that is not
# answered, and the election after it; a snapshot and the cleaning that follows it.
TIMERS: Final = (
    Timer("broker.session.timeout.ms", 9_000, 9 / 8, 3_000),
    Timer("controller.quorum.election.timeout.ms", 1_000, 4, 1_000),
    Timer("controller.quorum.fetch.timeout.ms", 2_000, 2, 2_000),
    Timer("metadata.log.max.snapshot.interval.ms", 0, 1, 2_000),
    Timer("krucible.log.clean.interval.ms", 0, 2, 1_000),
)
LONGEST_MS: Final = 40_000  # of ``outlasting``: what is slower is not waited for
OUTLASTING: Final = "outlasting"
_NUMBERS: Final = {2: "two", 3: "three", 4: "four"}

# How faults follow each other, by what ``--pace`` calls it.
PACES: Final[Mapping[str, ScheduleOptions]] = {
    STEADY: ScheduleOptions(),
    "long": ScheduleOptions(fault_ms=(3_000, 8_000), gap_ms=(800, 2_500)),
    "dense": ScheduleOptions(fault_ms=(300, 1_200), gap_ms=(0, 300)),
    "overlapping": ScheduleOptions(fault_ms=(1_000, 5_000), gap_ms=(300, 1_500), lanes=2),
    "lasting": ScheduleOptions(  # than a broker's session, and mostly than what C12 allows it
        fault_ms=(12_000, 18_000), gap_ms=(800, 2_500), lanes=2, weights=_SILENCING
    ),
    "crowded": ScheduleOptions(fault_ms=(1_000, 6_000), gap_ms=(300, 1_500), lanes=3),
    OUTLASTING: ScheduleOptions(  # ``fault_ms`` with the usual timers; see ``outlasting_ms``
        fault_ms=(13_781, 18_375), gap_ms=(800, 2_500), lanes=3, weights=_SILENCING
    ),
}


def paced(name: str, settings: Mapping[str, str] = MappingProxyType({})) -> ScheduleOptions:
    """The options of a pace; those of ``outlasting`` go by the timers that the settings set.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in PACES:
        raise UsageError(registry.unknown("pace", name, list(PACES)))
    options = PACES[name]
    return replace(options, fault_ms=outlasting_ms(settings)) if name == OUTLASTING else options


def outlasting_ms(settings: Mapping[str, str]) -> Span:
    """The lengths of faults that outlast the slowest of ``TIMERS``, with what is set of them."""
    slowest = 0.0
    for timer in TIMERS:
        text = settings.get(timer.setting, "")
        set_ms = int(text) if text.isdecimal() else timer.usual_ms
        slowest = max(slowest, set_ms * timer.times + timer.more_ms)
    slowest_ms = min(int(slowest), LONGEST_MS)
    return slowest_ms + slowest_ms // 20, slowest_ms + slowest_ms * 2 // 5


def told(name: str) -> str:
    """A pace in words: how long its faults last, in seconds, and how many at a time."""
    low_ms, high_ms = PACES[name].fault_ms
    lanes = PACES[name].lanes
    at_a_time = f", {_NUMBERS.get(lanes, lanes)} at a time" if lanes > 1 else ""
    lasts = f"{low_ms / 1_000:g} to {high_ms / 1_000:g} s"
    if name == OUTLASTING:
        lasts = "longer than the slowest timer that a check waits for"
    return f"{name} ({lasts}{at_a_time})"


def build(
    seed: int,
    nemeses: Sequence[tuple[str, Nemesis]],
    time_limit_s: float,
    options: ScheduleOptions | None = None,
) -> list[Fault]:
    """The schedule of a seed, by when faults begin; empty without nemeses.

    Each nemesis has a fault: those that there is no place for have a late one, at the end.
    """
    options = options or ScheduleOptions()
    if not nemeses:
        return []
    order = seeds.rng(seed, "schedule", "order").sample(list(nemeses), len(nemeses))
    by_name = dict(nemeses)
    faults: list[Fault] = []
    for place in _places(seed, options):
        late = not _fits(place, time_limit_s, options)
        first_round = place.number < len(order)
        if late and not first_round:
            return faults
        rng = place.rng
        name = order[place.number][0] if first_round else _choose(by_name, options, rng.random())
        faults.append(
            Fault(
                id=place.number,
                nemesis=name,
                at_ms=int(time_limit_s * 1_000) if late else place.at_ms,
                duration_ms=place.duration_ms,
                params=dict(by_name[name].params(rng)),
                draw=seeds.unit(seed, "schedule", place.number, "draw"),
                late=late,
            )
        )
    raise AssertionError("places do not end")


def room(seed: int, time_limit_s: float, options: ScheduleOptions | None = None) -> int:
    """Tell how many faults a seed's schedule has place for, each at its full length."""
    options = options or ScheduleOptions()
    return sum(
        1 for _ in takewhile(lambda p: _fits(p, time_limit_s, options), _places(seed, options))
    )


def length_s(seed: int, count: int, options: ScheduleOptions | None = None) -> float:
    """The least time limit that has room for so many faults of a seed, in tenths of a second."""
    options = options or ScheduleOptions()
    last = next(islice(_places(seed, options), count - 1, None))
    return ceil((last.at_ms + options.fault_ms[1] + options.tail_ms) / 100) / 10


def about(time_s: float, options: ScheduleOptions | None = None) -> int:
    """Tell how many faults take about so long; at least one."""
    options = options or ScheduleOptions()
    each_ms = (sum(options.fault_ms) + sum(options.gap_ms)) / 2 / options.lanes
    return max(1, round((time_s * 1_000 - options.lead_ms - options.tail_ms) / each_ms))


@dataclass(frozen=True, slots=True)
class _Place:
    """The span of any fault, and the luck that the rest of it is drawn from."""

    number: int
    at_ms: int
    duration_ms: int
    rng: Random


def _places(seed: int, options: ScheduleOptions) -> Iterator[_Place]:
    """The places of a seed without end, by when they begin; they depend on no time limit."""
    free_ms, number = _lanes(seed, options), 0
    while True:
        at_ms = min(free_ms)
        rng = seeds.rng(seed, "schedule", number)
        duration_ms, gap_ms = rng.randint(*options.fault_ms), rng.randint(*options.gap_ms)
        yield _Place(number, at_ms, duration_ms, rng)
        free_ms[free_ms.index(at_ms)] = at_ms + duration_ms + gap_ms
        number += 1


def _fits(place: _Place, time_limit_s: float, options: ScheduleOptions) -> bool:
    """Tell whether even the longest fault would end in time; else only short ones were drawn."""
    end_ms = int(time_limit_s * 1_000) - options.tail_ms
    return place.at_ms + options.fault_ms[1] <= end_ms


def _lanes(seed: int, options: ScheduleOptions) -> list[int]:
    """Draw when each lane's first fault begins; later lanes begin during the first one."""
    lead_ms, rng = options.lead_ms, seeds.rng(seed, "schedule", "lanes")
    shortest_ms = options.fault_ms[0]
    return [lead_ms, *(lead_ms + rng.randint(0, shortest_ms) for _ in range(1, options.lanes))]


def _choose(nemeses: Mapping[str, Nemesis], options: ScheduleOptions, share: float) -> str:
    weights = {name: options.weights.get(name, 1.0) for name in nemeses}
    point = share * sum(weights.values())
    for name, weight in weights.items():
        point -= weight
        if point < 0:
            return name
    return next(reversed(weights))


# --------------------------------------------------------------------------- on disk


def save(path: Path, faults: Iterable[Fault]) -> None:
    """Write a schedule, one fault a line; the file appears whole or not at all."""
    lines = [msgspec.json.encode(fault.to_json()) + b"\n" for fault in faults]
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(b"".join(lines))
    os.replace(draft, path)  # noqa: PTH105 - the same call everywhere that must be atomic


def load(path: Path, skip: Callable[[UsageError], object] | None = None) -> list[Fault]:
    """Read a schedule.

    Args:
        path: The file.
        skip: Is told of each line that is no fault, in the place of an exception.

    Raises:
        UsageError: A file that cannot be read, a line that is no fault, with its number, or two
            faults with one id.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the schedule: {error.strerror}") from error
    faults: list[Fault] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            faults.append(fault_from_json(msgspec.json.decode(line)))
        except (ValueError, msgspec.DecodeError) as error:
            told = UsageError(f"{path}:{number}: not a fault: {error}")
            if skip is None:
                raise told from error
            skip(told)
    twice = [number for number, count in Counter(f.id for f in faults).items() if count > 1]
    if twice:
        raise UsageError(f"{path}: fault ids {twice} occur more than once; give each its own")
    return faults


def fault_from_json(fields: Any) -> Fault:
    """Build a fault from its JSON object; raises ValueError that names the field at fault."""
    if not isinstance(fields, dict):
        raise ValueError(f"want an object, found {type(fields).__name__}")
    known = {"id", "nemesis", "at_ms", "duration_ms", "params", "draw", "late", "trigger"}
    if extra := sorted(set(fields) - known):
        raise ValueError(f"unknown fields {extra}; there are {sorted(known)}")
    for name in ("id", "at_ms", "duration_ms"):
        value = fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} is {value!r}, want an integer of 0 or more")
    nemesis, params, draw = fields.get("nemesis"), fields.get("params", {}), fields.get("draw", 0.0)
    if not isinstance(nemesis, str) or not nemesis:
        raise ValueError(f"nemesis is {nemesis!r}, want a name")
    if not isinstance(params, dict):
        raise ValueError(f"params is {params!r}, want an object")
    if isinstance(draw, bool) or not isinstance(draw, int | float) or not 0 <= draw < 1:
        raise ValueError(f"draw is {draw!r}, want a number in [0, 1)")
    late = fields.get("late", False)
    if not isinstance(late, bool):
        raise ValueError(f"late is {late!r}, want true or false")
    times = fields["at_ms"], fields["duration_ms"]
    trigger = None if fields.get("trigger") is None else trigger_from_json(fields["trigger"])
    if late and trigger is not None:
        raise ValueError("late and trigger: want one of them, not both")
    return Fault(fields["id"], nemesis, *times, params, float(draw), late, trigger)


def check(faults: Iterable[Fault], spec: RunSpec, place: str) -> None:
    """Refuse a schedule that such a run cannot play; ``place`` is where it is from.

    Raises:
        UsageError: A fault of no nemesis, of a node that the cluster lacks, or after the end.
    """
    nodes = spec.voters + spec.observers
    for fault in faults:
        registry.nemeses.get(fault.nemesis)
        if named(fault) > nodes:
            raise UsageError(
                f"{place}: fault {fault.id} ({fault.nemesis}) names n{named(fault)}, and the "
                f"cluster has n1 to n{nodes}: correct it, or add voters or observers"
            )
        if fault.at_ms >= spec.time_limit_s * 1_000 and not fault.late:
            raise UsageError(
                f"{place}: fault {fault.id} ({fault.nemesis}) begins at {fault.at_ms} ms, when "
                f"the run is over ({spec.time_limit_s:g} s): move it, or give more time"
            )
        if (why := _unseen(fault, spec)) is not None:
            raise UsageError(f"{place}: fault {fault.id} ({fault.nemesis}) {why}")


def _unseen(fault: Fault, spec: RunSpec) -> str | None:
    """Tell why nobody would see a fault's moment come in such a run; None when it is seen."""
    if fault.trigger is None:
        return None
    if "events" not in registry.systems.traits(spec.system).of(spec).leaves:
        return f"waits for an event, and nodes of system {spec.system!r} tell of none: give a time"
    if fault.trigger.needs_disks and spec.env != SIM:
        return (
            f"waits for a change of a disk, which env {spec.env!r} does not tell of before it is "
            "made; only simulations do: wait for an event of the trace, or give a time"
        )
    return None


def named(fault: Fault) -> int:
    """The highest number of a node that a fault or its trigger names; 0 when there is none."""
    role = () if fault.trigger is None else (fault.trigger.role,)
    return max(_nodes((*fault.params.values(), *role)), default=0)


def _nodes(value: Any) -> Iterator[int]:
    """The numbers of the nodes that are named anywhere in a fault's params."""
    if isinstance(value, str):
        if match := _NODE.fullmatch(value):
            yield int(match[1])
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _nodes(inner)


def summary(faults: Sequence[Fault]) -> dict[str, Any]:
    """Sum a schedule up as a JSON object: counts by nemesis, time under fault, its end.

    Times are of the faults that go by time; how many wait for moments is told where any do.
    """
    timed = [fault for fault in faults if fault.trigger is None]
    aimed = len(faults) - len(timed)
    return {
        "faults": len(faults),
        "by_nemesis": dict(sorted(Counter(f.nemesis for f in faults).items())),
        "fault_ms": _covered_ms(timed),
        "end_ms": max((f.at_ms + f.duration_ms for f in timed), default=0),
        **({"at_moments": aimed} if aimed else {}),
    }


def _covered_ms(faults: Sequence[Fault]) -> int:
    """Milliseconds in which at least one fault is on."""
    covered = reached = 0
    for fault in sorted(faults, key=lambda f: f.at_ms):
        end = fault.at_ms + fault.duration_ms
        covered += max(0, end - max(reached, fault.at_ms))
        reached = max(reached, end)
    return covered
