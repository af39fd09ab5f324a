"""Draws faults that strike at moments, from a stream of the seed's luck that nothing else uses.

A moment is drawn from a table of moments at which nodes change what they are or what is on their
disks: elections, the first writes of a reign, changes of the voters, truncations, snapshots, the
fencing of brokers. A schedule has them beside those of its faults that go by time, which they do
not change. A fault that strikes has its whole length: too late for that, its moment does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from harness import seeds
from harness.contracts.nemesis import Fault, Nemesis
from harness.faults.schedule import ScheduleOptions
from harness.moments.trigger import ANY, CHANGE, EVENT, Match, Trigger

# Families of faults that take hold at once, or at least begin to.
FAMILIES: Final = ("kill", "power", "pause", "partition", "packets", "answers", "membership")
AT_EVENT: Final = 0.8  # share of targets that are the event's node, and not the drawn role
LOW: Final = 1.5  # above 1: low numbers are drawn more often
BRIEF_MS: Final = (300, 2_500)  # a length that leaves the moment much time to come
EARLY: Final = 0.5  # of the time, in which faults begin to wait

_DIES: Final = ("kill", "power")
_SILENT: Final = ("pause", "partition", "packets", "answers")
_LED: Final = Match("role", {"to": "leader"})


@dataclass(frozen=True, slots=True)
class Occasion:
    """A kind of moment: a trigger without its number, how high that may be, and who may strike."""

    trigger: Trigger
    nth_max: int
    families: Sequence[str]
    weight: float = 1.0


def _changes(families: Sequence[str], nth_max: int, weight: float, **more: Any) -> Occasion:
    on = Match(CHANGE, more.pop("fields", {}))
    return Occasion(Trigger(on, **more), nth_max, families, weight)


def _at(type_: str, families: Sequence[str], nth_max: int = 2, **more: Any) -> Occasion:
    weight = more.pop("weight", 1.0)
    return Occasion(
        Trigger(Match(type_, more.pop("fields", {})), **more), nth_max, families, weight
    )


OCCASIONS: Final = (
    _changes(_DIES, 10, 3.0, after=_LED),
    _changes(_DIES, 10, 2.0, after=Match("role", {"to": "candidate"})),
    _changes(_DIES, 10, 3.0, after=Match("vote", {"pre": False, "ok": True})),
    _changes(_DIES, 6, 2.0, after=Match("trunc")),
    _changes(_DIES, 4, 1.0, after=Match("start")),
    _changes(_DIES, 6, 1.0, during="voter-change"),
    _changes(_DIES, 6, 2.0, fields={"file": "snapshot"}),
    _changes(_DIES, 15, 2.0, fields={"file": "quorum-state"}),
    _changes(_DIES, 6, 1.0, fields={"op": "unlink"}),
    _changes(_DIES, 40, 2.0),
    _at("role", (*_DIES, *_SILENT), fields={"to": "leader"}, weight=2.0),
    _at("role", _SILENT, fields={"to": "candidate"}),
    _at("role", (*_SILENT, "membership"), fields={"to": "follower"}),
    _at("elected", (*_DIES, *_SILENT, "membership"), weight=2.0),
    _at("append", (*_DIES, *_SILENT), 20, during="new-reign"),
    _at("append", ("power",), 20, role="leader", during="unflushed"),
    _at("voters", (*_DIES, *_SILENT), during="voter-change", weight=3.0),
    _at("hwm", (*_DIES, *_SILENT), 30, role="leader"),
    _at("elected", ("membership",), weight=2.0),
    _at("claim", (*_DIES, *_SILENT)),
    _at("trunc", (*_DIES, *_SILENT), weight=2.0),
    _at("snap", (*_DIES, *_SILENT)),
    _at("lstart", _DIES),
    _at("fetch_rx", (*_DIES, *_SILENT), fields={"res": "diverging"}),
    _at("reg", (*_DIES, *_SILENT), role="observer"),
    _at("fence", (*_DIES, *_SILENT), 3, role="observer"),
    _at("expire", (*_DIES, *_SILENT), role="leader"),
    _at("let_go", (*_DIES, *_SILENT), role="leader"),
)


def kinds(nemeses: Sequence[tuple[str, Nemesis]]) -> list[tuple[str, Nemesis]]:
    """Those of the nemeses that strike well at a moment."""
    return [(name, nemesis) for name, nemesis in nemeses if nemesis.family in FAMILIES]


def build(
    seed: int,
    count: int,
    nemeses: Sequence[tuple[str, Nemesis]],
    time_limit_s: float,
    options: ScheduleOptions,
    first_id: int,
) -> list[Fault]:
    """Draw so many faults for moments; fewer where there is no time for one of its length."""
    found: list[Fault] = []
    usable = kinds(nemeses)
    for number in range(count if usable else 0):
        rng = seeds.rng(seed, "moments", number)
        fault = _draw(rng, usable, time_limit_s, options)
        if fault is not None:
            draw = seeds.unit(seed, "moments", number, "draw")
            found.append(replace(fault, id=first_id + len(found), draw=draw))
    return found


def _draw(
    rng: Random,
    nemeses: Sequence[tuple[str, Nemesis]],
    time_limit_s: float,
    options: ScheduleOptions,
) -> Fault | None:
    by_family: dict[str, list[tuple[str, Nemesis]]] = {}
    for name, nemesis in nemeses:
        by_family.setdefault(nemesis.family, []).append((name, nemesis))
    fits = [o for o in OCCASIONS if any(family in by_family for family in o.families)]
    if not fits:
        return None
    occasion = rng.choices(fits, [each.weight for each in fits])[0]
    family = rng.choice([family for family in occasion.families if family in by_family])
    name, nemesis = rng.choice(by_family[family])
    duration_ms = rng.randint(*rng.choice((BRIEF_MS, options.fault_ms)))
    until_ms = int(time_limit_s * 1_000) - options.tail_ms - duration_ms
    nth = 1 + int(occasion.nth_max * rng.random() ** LOW)
    params = _params(dict(nemesis.params(rng)), rng, occasion.trigger.role)
    at_ms = rng.choice((0, int(EARLY * time_limit_s * 1_000 * rng.random())))
    if until_ms < 0:
        return None
    trigger = replace(occasion.trigger, nth=nth, until_ms=until_ms)
    return Fault(0, name, min(at_ms, until_ms), duration_ms, params, trigger=trigger)


def _params(params: dict[str, Any], rng: Random, role: str) -> Mapping[str, Any]:
    """The params, mostly aimed at the event's node; brokers are struck by their own events only."""
    if "target" in params and (rng.random() < AT_EVENT or role not in (ANY, "leader")):
        params["target"] = EVENT
    return params
