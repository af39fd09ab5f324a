"""Which faults a run may use: the names and families of ``--nemesis`` turned into plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness import seeds
from harness.errors import UsageError
from harness.protocols import Fault, Nemesis
from harness.registry import nemeses, unknown
from harness.spec import RunSpec

ALL = "all"
NONE = "none"


def select(names: Iterable[str], spec: RunSpec | None = None) -> list[tuple[str, Nemesis]]:
    """The nemeses that names, families, ``all`` or ``none`` stand for, each once, sorted by name.

    With a spec, ``all`` and families leave out what such a run could never install, as long as
    something is left; what is named itself stays, and the run will say that it was missing.

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
        hits = [n for n, nemesis in made.items() if name in (ALL, n, nemesis.family)]
        if not hits:
            families = {nemesis.family for nemesis in made.values()}
            raise UsageError(unknown("nemesis", name, sorted({*made, *families, ALL, NONE})))
        fitting = [n for n in hits if n == name or misfit(made[n], spec) is None]
        chosen.update(fitting or hits)
    return [(name, made[name]) for name in sorted(chosen)]


def of_schedule(faults: Iterable[Fault]) -> list[tuple[str, Nemesis]]:
    """The nemeses that a schedule needs, sorted by name; a name is no family here.

    Raises:
        UnknownPluginError: A fault of none.
    """
    return [(name, nemeses.get(name)()) for name in sorted({fault.nemesis for fault in faults})]


def misfit(nemesis: Nemesis, spec: RunSpec | None) -> str | None:
    """Why a run with such options could never install a nemesis; None when it may."""
    ask = getattr(nemesis, "misfit", None)
    reason: str | None = None if ask is None or spec is None else ask(spec)
    return reason


def asked_for(chosen: Mapping[str, Nemesis]) -> frozenset[type]:
    """The abilities of ``harness.hosts`` that some nemeses may ask an environment for."""
    return frozenset(a for nemesis in chosen.values() for a in getattr(nemesis, "asks", ()))


def swarm(seed: int, chosen: Sequence[tuple[str, Nemesis]], most: int) -> list[tuple[str, Nemesis]]:
    """A seed's own part of the nemeses, at most so many: not all seeds need all of them.

    Source: Groce et al., "Swarm Testing" (ISSTA 2012).
    """
    rng = seeds.rng(seed, "swarm")
    most = min(max(1, most), len(chosen))
    count = rng.randint((most + 1) // 2, most) if chosen else 0
    picked = sorted(rng.sample(range(len(chosen)), count))
    return [chosen[place] for place in picked]
