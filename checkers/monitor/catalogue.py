"""All invariants that are judged event by event: those of this folder, found by themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping

import checkers.invariants
from checkers.replay.invariant import Invariant
from harness.catalogue import place
from harness.contracts.meaning import Meaning


def _found() -> list[type[Invariant]]:
    """The concrete subclasses that the modules of the folder define, in the catalogue's order."""
    modules = sorted(m.name for m in pkgutil.iter_modules(checkers.invariants.__path__))
    found = [
        each
        for name in modules
        if f"{checkers.invariants.__name__}.{name}" != __name__
        for each in vars(importlib.import_module(f"{checkers.invariants.__name__}.{name}")).values()
        if inspect.isclass(each)
        and issubclass(each, Invariant)
        and each.__module__.rpartition(".")[2] == name
        and not inspect.isabstract(each)
    ]
    return sorted(found, key=lambda each: place(each.name))


INVARIANTS: tuple[type[Invariant], ...] = tuple(_found())


def names_of(checker: str) -> frozenset[str]:
    """The invariants that a checker tells of."""
    return frozenset(each.name for each in INVARIANTS if each.checker == checker)


def meanings_of(checker: str) -> list[Meaning]:
    """List the meanings of a checker's invariants, each once."""
    found = {each.name: each.meaning for each in INVARIANTS if each.checker == checker}
    return list(found.values())


def invariants_for(
    settings: Mapping[str, str], *, timed: bool = True, checker: str | None = None
) -> list[Invariant]:
    """All of them, or those of a checker, for nodes with these settings.

    Not ``timed``: a clock ran fast or slow, so that those are left out which go by clocks.
    """
    return [
        each.of(settings)
        for each in INVARIANTS
        if (timed or not each.timed) and checker in (None, each.checker)
    ]
