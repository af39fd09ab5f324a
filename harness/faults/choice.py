"""Turns the names and families of ``--nemesis`` into the faults that a run may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from harness import seeds
from harness.contracts.nemesis import Asks, Chooses, Fault, Lasting, NamedOnly, Nemesis
from harness.errors import UsageError
from harness.faults import aimed, schedule, weather
from harness.registry import nemeses, unknown
from harness.spec import SIM, RunSpec

ALL = "all"
NONE = "none"


def select(names: Iterable[str], spec: RunSpec | None = None) -> list[tuple[str, Nemesis]]:
    """The nemeses that names, families, ``all`` or ``none`` stand for, each once, sorted by name.

    ``all`` leaves out what is played only by its name or family. With a spec, ``all`` and families
    leave out what such a run could never install, as long as something is left; what is named
    itself stays, and the run will say that it was missing.

    Raises:
        UsageError: A name that is neither, with what was meant; or ``none`` beside others.
    """
    wanted = [name.strip() for name in names]
    if NONE in wanted:
        if set(wanted) != {NONE}:
            raise UsageError(f"nemesis 'none' goes with nothing else, found {', '.join(wanted)}")
        return []
    made: dict[str, Nemesis] = {name: factory() for name, factory in nemeses}
    chosen: set[str] = set()
    for name in wanted:
        hits = [n for n, nemesis in made.items() if _is_meant(name, n, nemesis)]
        if not hits:
            families = {nemesis.family for nemesis in made.values()}
            raise UsageError(unknown("nemesis", name, sorted({*made, *families, ALL, NONE})))
        fitting = [n for n in hits if n == name or misfit(made[n], spec) is None]
        chosen.update(fitting or hits)
    return [(name, made[name]) for name in sorted(chosen)]


def _is_meant(word: str, name: str, nemesis: Nemesis) -> bool:
    if word == ALL:
        return not isinstance(nemesis, NamedOnly)
    return word in (name, nemesis.family)


def of_schedule(faults: Iterable[Fault]) -> list[tuple[str, Nemesis]]:
    """The nemeses that a schedule needs, sorted by name; a name is no family here.

    Raises:
        UnknownPluginError: A fault of none.
    """
    return [(name, nemeses.get(name)()) for name in sorted({fault.nemesis for fault in faults})]


def misfit(nemesis: Nemesis, spec: RunSpec | None) -> str | None:
    """Tell why a run with such options could never install a nemesis; None when it may."""
    return nemesis.misfit(spec) if spec is not None and isinstance(nemesis, Chooses) else None


def asked_for(chosen: Mapping[str, Nemesis]) -> frozenset[type]:
    """The abilities of ``contracts.hosts`` that some nemeses may ask an environment for."""
    return frozenset(
        a for nemesis in chosen.values() if isinstance(nemesis, Asks) for a in nemesis.asks
    )


def plan(spec: RunSpec, *, asked_for: bool = True) -> tuple[list[tuple[str, Nemesis]], list[Fault]]:
    """The nemeses that a run uses, and its schedule; raises UsageError.

    Args:
        spec: The options.
        asked_for: Whether the nemeses were asked for, not only drawn: then what is named itself,
            and something of each family, comes late where there is no time for it.
    """
    pace = schedule.paced(spec.pace, spec.settings)
    chosen = select(spec.nemeses, spec)
    if not asked_for:
        chosen = [(name, nemesis) for name, nemesis in chosen if not misfit(nemesis, spec)]
    lasting = [(name, nemesis) for name, nemesis in chosen if isinstance(nemesis, Lasting)]
    chosen = [(name, nemesis) for name, nemesis in chosen if not isinstance(nemesis, Lasting)]
    room = schedule.room(spec.seed, spec.time_limit_s, pace)
    must = owed(spec, chosen) if asked_for else ()
    pool = chosen
    chosen = fitting(spec, chosen, room, must, pace.weights)
    faults = schedule.build(spec.seed, chosen, spec.time_limit_s, pace)
    faults += weather.faults(spec.weather, spec.time_limit_s, len(faults))
    if spec.moments and spec.env == SIM and pool:
        if not asked_for:  # whatever families were drawn: a moment is nothing without its fault
            pool = [(name, n) for name, n in select((ALL,), spec) if not misfit(n, spec)]
        faults += aimed.build(
            spec.seed, spec.moments, pool, spec.time_limit_s, pace, first_id=len(faults)
        )
    faults += _lasting(spec, lasting, first_id=len(faults))
    return _needed(chosen, faults), faults


def _lasting(
    spec: RunSpec, chosen: Iterable[tuple[str, Nemesis]], first_id: int
) -> Iterator[Fault]:
    """Give a fault as long as the run for each nemesis that is played so."""
    for number, (name, nemesis) in enumerate(chosen, start=first_id):
        params = nemesis.params(seeds.rng(spec.seed, "lasting", name))
        yield Fault(number, name, 0, int(spec.time_limit_s * 1_000), params)


def _needed(
    chosen: Sequence[tuple[str, Nemesis]], faults: Iterable[Fault]
) -> list[tuple[str, Nemesis]]:
    """The nemeses that were chosen, and those of faults beside them, sorted by name."""
    return sorted({**dict(of_schedule(faults)), **dict(chosen)}.items())


def what_does_not_fit(spec: RunSpec, faults: Sequence[Fault]) -> Iterator[str]:
    """Say which of ``--nemesis`` has no time in the run, and how long it would take.

    Args:
        spec: The options, with the words of ``--nemesis`` as they were given.
        faults: The schedule that was drawn.
    """
    chosen = [each for each in select(spec.nemeses, spec) if not isinstance(each[1], Lasting)]
    kinds = {fault.nemesis for fault in faults}.intersection(name for name, _ in chosen)
    if not kinds:
        return
    enough_s = schedule.length_s(spec.seed, len(chosen), schedule.paced(spec.pace, spec.settings))
    if len(kinds) < len(chosen):
        yield (
            f"{len(kinds)} of the {len(chosen)} kinds of fault of --nemesis "
            f"{','.join(spec.nemeses)} fit into --time-limit {spec.time_limit_s:g}; all of them "
            f"need --time-limit {enough_s:g}"
        )
    late = sorted({fault.nemesis for fault in faults if fault.late})
    if late:
        yield (
            f"--time-limit {spec.time_limit_s:g} is too short for {', '.join(late)}, which will "
            f"come after it; --time-limit {enough_s:g} has room for all"
        )


def owed(spec: RunSpec, chosen: Sequence[tuple[str, Nemesis]]) -> frozenset[str]:
    """The nemeses that must come, time or not: those named themselves, one of each family."""
    names = {name for name, _ in chosen}
    found = names.intersection(spec.nemeses)
    for family in sorted(set(spec.nemeses) - names):
        members = [name for name, nemesis in chosen if family in (ALL, nemesis.family)]
        if members and found.isdisjoint(members):
            found.add(seeds.rng(spec.seed, "nemeses", family).choice(members))
    return frozenset(found)


def fitting(
    spec: RunSpec,
    chosen: Sequence[tuple[str, Nemesis]],
    room: int,
    owed: Iterable[str] = (),
    weights: Mapping[str, float] = MappingProxyType({}),
) -> list[tuple[str, Nemesis]]:
    """Fewer nemeses rather than shorter faults: those that are owed, and others by seed.

    With real processes as many others as there is room for; in the simulator, which has many
    seeds, at least half of that: not all seeds need all of them.

    Source: Groce et al., "Swarm Testing" (ISSTA 2012).
    """
    rng = seeds.rng(spec.seed, "swarm")
    kept = set(owed)
    others = [name for name, _ in chosen if name not in kept]
    most = min(max(0, room - len(kept)), len(others))
    count = rng.randint((most + 1) // 2, most) if spec.env == SIM else most
    turns = {name: rng.random() ** (1 / weights.get(name, 1.0)) for name in others}
    kept.update(sorted(others, key=lambda name: -turns[name])[:count])
    return [(name, nemesis) for name, nemesis in chosen if name in kept]
