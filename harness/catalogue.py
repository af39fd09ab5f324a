"""The catalogue of invariants: what each promises, who judges it, which seeded bugs break it.

Nothing is written here. The words stand beside the code that judges and come with the checkers and
models that are registered; the seeded bugs are those that systems offer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.contracts.meaning import Meaning
from harness.errors import UsageError
from harness.registry import checkers, models, mutants_of, systems

FAMILIES = "SCL"  # safety of the log, the controller and its brokers, liveness
_NUMBERED = re.compile(rf"([{FAMILIES}])(\d+)")
Place = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Bug:
    """A seeded bug that breaks an invariant: its name, the system that has it, and its words."""

    name: str
    system: str
    description: str
    source: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Everything known about an invariant.

    ``checkers`` judge runs, ``models`` histories (``krucible check --model``). ``bugs`` are sorted:
    first those that are there to break it.
    """

    meaning: Meaning
    checkers: tuple[str, ...]
    models: tuple[str, ...]
    bugs: tuple[Bug, ...]


def place(name: str) -> Place:
    """Give the place of an invariant in the order S1, S2, ... S10, then C and L, then all others.

    Of one part of the catalogue: what only models judge comes after what checkers judge.
    """
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return len(FAMILIES), 0, name
    return FAMILIES.index(found[1]), int(found[2]), name


def meanings() -> dict[str, Meaning]:
    """All invariants in words, by name: first those of checkers, each part in its order."""
    of_runs = {meaning.name: meaning for meaning in checkers.meanings()}
    of_histories = {meaning.name: meaning for meaning in models.meanings()}
    names = (*sorted(of_runs, key=place), *sorted(of_histories.keys() - of_runs, key=place))
    return {name: of_runs.get(name) or of_histories[name] for name in names}


def full_name(name: str) -> str:
    """An invariant with its title; one that nobody here judges is called by its name alone."""
    found = meanings().get(name)
    return name if found is None else found.full_name


def entries() -> dict[str, Entry]:
    """The whole catalogue, by name, in its order; imports every checker, model and seeded bug."""
    words = meanings()
    judging = _by_invariant({name: checkers.judges(name) for name in checkers.names()})
    with_models = _by_invariant({name: models.judges(name) for name in models.names()})
    bugs = _bugs()
    return {
        name: Entry(
            meaning,
            judging.get(meaning.seen_as or name, ()),
            with_models.get(meaning.seen_as or name, ()),
            bugs.get(name, ()),
        )
        for name, meaning in words.items()
    }


def entry(name: str) -> Entry:
    """The entry of that name, in upper or lower case; raises UsageError, which says the names."""
    found = entries()
    known = {each.casefold(): each for each in found}
    try:
        return found[known[name.casefold()]]
    except KeyError:
        of_runs = [each for each, entry in found.items() if entry.checkers]
        raise UsageError(
            f"no invariant is called {name!r}: there are {', '.join(in_short(of_runs))}, and "
            f"{len(found) - len(of_runs)} of histories; 'krucible list invariants' has them all"
        ) from None


def in_short(names: Iterable[str]) -> list[str]:
    """Names of the catalogue, those of a family without a gap as one: ``S1 to S34``."""
    families: dict[str, list[int]] = {}
    others = []
    for name in sorted(names, key=place):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            others.append(name)
        else:
            families.setdefault(found[1], []).append(int(found[2]))
    return [text for of in families.items() for text in _range(*of)] + others


def _range(family: str, numbers: Sequence[int]) -> list[str]:
    first, last = numbers[0], numbers[-1]
    if first < last and len(numbers) == last - first + 1:
        return [f"{family}{first} to {family}{last}"]
    return [f"{family}{number}" for number in numbers]


def _by_invariant(judged: Mapping[str, tuple[Meaning, ...]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for judge, of_judge in judged.items():
        for meaning in of_judge:
            found[meaning.name] = (*found.get(meaning.name, ()), judge)
    return found


def _bugs() -> dict[str, tuple[Bug, ...]]:
    """The seeded bugs of each invariant: those of which it is the first that they break first."""
    found: dict[str, list[tuple[int, str, Bug]]] = {}
    for system in systems.names():
        for mutant in mutants_of(system):
            bug = _bug(mutant, system)
            for rank, name in enumerate(mutant["breaks"].split(", ")):
                found.setdefault(name, []).append((rank, bug.name, bug))
    return {name: tuple(bug for *_, bug in sorted(of, key=_rank)) for name, of in found.items()}


def _rank(each: tuple[int, str, Bug]) -> tuple[int, str]:
    return each[:2]


def _bug(mutant: Mapping[str, Any], system: str) -> Bug:
    return Bug(mutant["name"], system, mutant["description"], mutant["source"])
