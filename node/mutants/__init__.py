"""Seeded bugs: each a small override of real code, in one file of its own, off unless asked for.

A mutant is a function from the healthy ``NodeParts`` to parts with the bug::

    @mutant("forgotten-vote", breaks=("S3", "S2"), source="KIP-595: votes must survive a restart")
    def forgotten_vote(parts: NodeParts) -> NodeParts: ...

It puts a small subclass in the place of one of their classes, or of two or three; those of the
consensus core are in ``parts.core``, one per duty.

``breaks`` names the invariants of which at least one must catch it; a catch by none of them does
not count. ``scenario`` is a run in which one of them does, within seconds; see
``node.catalogue.scenario``.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from node.catalogue.scenario import Scenario
from node.config import ConfigError
from node.driver.parts import NodeParts

log = logging.getLogger("krucible.node")

Apply = Callable[[NodeParts], NodeParts]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A seeded bug: its name, what it breaks, the real bug it stands for, and how to plant it."""

    name: str
    breaks: tuple[str, ...]
    source: str
    description: str
    apply: Apply
    scenario: Scenario | None = None


_MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str, *, breaks: tuple[str, ...], source: str, scenario: Scenario | None = None
) -> Callable[[Apply], Apply]:
    """Register the decorated function as the mutant ``name``."""

    def add(apply: Apply) -> Apply:
        description = (inspect.getdoc(apply) or "").partition("\n")[0]
        assert description, f"mutant {name!r} has no docstring: say what it does wrong"  # noqa: S101
        _MUTANTS[name] = Mutant(name, breaks, source, description, apply, scenario)
        return apply

    return add


def load() -> dict[str, Mutant]:
    """All mutants of this folder, by name."""
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return dict(sorted(_MUTANTS.items()))


def get(name: str) -> Mutant:
    """The mutant of that name; raises ConfigError with the nearest names."""
    known = load()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
        raise ConfigError(f"no mutant is called {name!r}: {hint}")
    return known[name]


def planted(name: str | None) -> NodeParts:
    """The parts of a node, with the seeded bug of that name, if any; raises ConfigError."""
    if name is None:
        return NodeParts()
    parts = get(name).apply(NodeParts())
    log.warning("seeded bug %s is in", name)
    return parts
