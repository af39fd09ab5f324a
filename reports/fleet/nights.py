"""Nights as the fleet report shows them: read from what ``krucible nightly`` left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.catalogue import full_name, place
from harness.nightly import headline
from harness.nightly.ledger import unit_of


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a night's plan, and what its histories came to."""

    name: str
    runs: int
    verdicts: Mapping[str, int]
    used_s: float
    mutant: str | None = None


@dataclass(frozen=True, slots=True)
class Canary:
    """A seeded bug that had to be caught."""

    name: str
    caught: bool
    by: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    why: str = ""  # it was not caught
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs of one entry that failed in one way."""

    entry: str
    verdict: str
    invariants: tuple[str, ...]
    message: str
    times: int
    first_seed: int
    reproduced: tuple[int, int] | None = None  # k of N
    commands: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()  # folders, as the night knew them
    mutant: str | None = None
    findings: tuple[str, ...] = ()  # that explain it; none: it is news

    @property
    def unit(self) -> str:
        """Tell what counts the runs of its entry: ``seed`` or ``run``."""
        return unit_of(self.entry)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of a night, of all that the whole swarm should reach.

    ``missing`` counts against the night; it is None when too few seeds were done to judge.
    """

    reached: Mapping[str, int]
    not_reached: tuple[str, ...] = ()
    missing: tuple[str, ...] | None = None
    wanted: int = 0
    seeds: int = 0
    seeds_needed: int = 0


@dataclass(frozen=True, slots=True)
class Watched:
    """An invariant, and how often its premise came true."""

    name: str  # with its title
    times: int
    runs: int
    watched: int  # runs
    missing: bool  # it should have come true, which counts against the night


@dataclass(frozen=True, slots=True)
class Known:
    """The features that were known at the end of a part of a night."""

    used_s: float
    histories: int
    features: int


@dataclass(frozen=True, slots=True)
class Features:
    """The features that a night's simulations showed."""

    growth: tuple[Known, ...]
    by_entry: Mapping[str, int]  # by the entry that showed them first
    late_s: float  # the last hour, or tenth of the night
    late: int  # features that it brought

    @property
    def known(self) -> int:
        """Count them all."""
        return self.growth[-1].features


@dataclass(frozen=True, slots=True)
class Night:
    """A night's summary."""

    begun: str
    exit_code: int
    histories: int
    used_s: float
    reasons: tuple[str, ...]  # to be red
    path: str  # of its folder, from the store's root
    sentences: tuple[str, ...] = ()  # what it came to, what matters most first
    budget_s: float | None = None
    entries: tuple[Entry, ...] = ()
    canaries: tuple[Canary, ...] = ()
    failures: tuple[Failure, ...] = ()
    coverage: Coverage | None = None
    skipped: Mapping[str, str] | None = None  # entries without a run, and why; None: not told
    premises: tuple[Watched, ...] = ()  # the rarest first
    features: Features | None = None  # None: not told, or there were none
    known: tuple[tuple[str, int, int], ...] = ()  # finding, runs, times; the most runs first

    @property
    def colour(self) -> str:
        """``green`` or ``red``."""
        return "red" if self.exit_code else "green"

    @property
    def begun_s(self) -> float:
        """Give its begin in seconds since 1970; 0 when it does not tell."""
        try:
            return datetime.fromisoformat(self.begun).timestamp()
        except ValueError:
            return 0.0

    @property
    def sound(self) -> bool:
        """Tell whether no run without a seeded bug was invalid."""
        return not any(
            failure.verdict == "invalid" and not failure.mutant for failure in self.failures
        )

    @property
    def first(self) -> Failure | None:
        """The failure to look at first: of the worst kind, news before what is known."""
        return min(self.failures, key=_rank, default=None)

    @property
    def counts(self) -> Mapping[str, int]:
        """Histories by verdict."""
        words = ("invalid", "unknown", "valid")
        return {w: sum(entry.verdicts.get(w, 0) for entry in self.entries) for w in words}


def _rank(failure: Failure) -> tuple[bool, bool, bool]:
    return failure.verdict != "invalid", bool(failure.mutant), bool(failure.findings)


def read_nights(root: Path, complain: Callable[[str], None] = lambda _: None) -> list[Night]:
    """The nights of a store that are over, the last one first; ``complain`` hears of others."""
    nights = []
    for path in sorted(root.glob("nights/*/summary.json"), reverse=True):
        try:
            told = msgspec.json.decode(path.read_bytes())
            nights.append(night_of(told, path.parent.relative_to(root).as_posix()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            complain(f"{path.relative_to(root)}: no summary of a night: {error!r}")
    return nights


def night_of(told: Mapping[str, Any], path: str) -> Night:
    """A summary as ``harness.nightly.outcome`` makes it, also one of an older night.

    Raises what fields of a wrong kind raise: KeyError, TypeError, ValueError, AttributeError.
    """
    budget_s = told.get("budget_s")
    return Night(
        begun=str(told["begun"]),
        exit_code=int(told["exit_code"]),
        histories=int(told["histories"]),
        used_s=float(told["used_s"]),
        reasons=_strings(told["reasons"]),
        path=path,
        sentences=tuple(headline.sentences(told)),
        budget_s=None if budget_s is None else float(budget_s),
        entries=tuple(_entry(name, each) for name, each in told["entries"].items()),
        canaries=tuple(_canary(name, each) for name, each in told["canaries"].items()),
        failures=tuple(map(_failure, told["failing"])),
        coverage=_coverage(told),
        skipped=_skipped(told.get("skipped")),
        premises=tuple(_premises(told)),
        features=_features(told.get("features")),
        known=tuple(
            (str(finding), int(runs), int(times))
            for finding, (runs, times) in told.get("known", {}).items()
        ),
    )


def _entry(name: str, told: Mapping[str, Any]) -> Entry:
    verdicts = {str(word): int(times) for word, times in told["verdicts"].items()}
    return Entry(name, int(told["runs"]), verdicts, float(told["used_s"]), told.get("mutant"))


def _canary(name: str, told: Mapping[str, Any]) -> Canary:
    return Canary(
        name,
        bool(told["caught"]),
        _strings(told.get("by", ())),
        float(told["elapsed_s"]),
        str(told.get("why", "")),
        told.get("command"),
    )


def _failure(told: Mapping[str, Any]) -> Failure:
    again = told.get("reproduced")
    return Failure(
        entry=str(told["entry"]),
        verdict=str(told["verdict"]),
        invariants=_strings(told["invariants"]),
        message=str(told["message"]),
        findings=_strings(told.get("findings", ())),
        times=int(told["times"]),
        first_seed=int(told["first_seed"]),
        reproduced=None if again is None else (int(again[0]), int(again[1])),
        commands=_strings(told["commands"]),
        runs=_strings(told["runs"]),
        mutant=told.get("mutant"),
    )


def _coverage(told: Mapping[str, Any]) -> Coverage:
    never, more = told["never"], told.get("coverage", {})
    missing = None if never is None else _strings(never)
    return Coverage(
        reached={str(name): int(times) for name, times in told["reached"].items()},
        not_reached=_strings(more.get("not_reached", missing or ())),
        missing=missing,
        wanted=int(more.get("wanted", 0)),
        seeds=int(more.get("seeds", 0)),
        seeds_needed=int(more.get("seeds_needed", 0)),
    )


def _skipped(told: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    return None if told is None else {str(name): str(why) for name, why in told.items()}


def _premises(told: Mapping[str, Any]) -> Iterator[Watched]:
    missing = set(told.get("premises_missing", ()))
    counted = {name: tuple(map(int, each)) for name, each in told.get("premises", {}).items()}
    for name in missing - counted.keys():
        counted[name] = (0, 0, 0)
    for name, (times, runs, watched) in sorted(
        counted.items(), key=lambda item: (item[1][1] / max(1, item[1][2]), place(item[0]))
    ):
        yield Watched(full_name(name), times, runs, watched, name in missing)


def _features(told: Mapping[str, Any] | None) -> Features | None:
    if told is None or not told["growth"]:
        return None
    growth = (Known(float(s), int(runs), int(known)) for s, runs, known in told["growth"])
    by_entry = {str(name): int(count) for name, count in told["by_entry"].items()}
    late_s, late = told["late"]
    return Features(tuple(growth), by_entry, float(late_s), int(late))


def _strings(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))
