"""Which faults a run may use: the names and families of ``--nemesis`` turned into plug-ins."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import UsageError
from harness.protocols import Nemesis
from harness.registry import nemeses, unknown

ALL = "all"
NONE = "none"


def select(names: Iterable[str]) -> list[tuple[str, Nemesis]]:
    """The nemeses that names, families, ``all`` or ``none`` stand for, each once, sorted by name.

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
        chosen.update(hits)
    return [(name, made[name]) for name in sorted(chosen)]
