"""What RUN|SEED|FILE stands for: the same to ``repro`` and to ``shrink``.

A run of the store is what it was. A seed that is none is drawn as ``krucible sim --seed`` draws
it. A schedule is played with the ``spec.json`` beside it, or with what a seed draws for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.faults import schedule
from harness.run.judge import COVERAGE
from harness.sessions.swarm import draw
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir, Store
from harness.store.reading import load_faults, load_results, load_spec
from krucible.arguments import CONCURRENCY_MAX, OBSERVERS_MAX, SEED_MAX, VOTERS_MAX, check_mutant
from krucible.options import asked_for, plan_of_seed

SEED = 1  # what a schedule without a spec is played with when nobody says
SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Meant:
    """One run to be repeated: all that decides it, and how it ended the last time."""

    name: str  # as it is told
    spec: RunSpec
    faults: tuple[Fault, ...]
    asked_for: bool = True  # whether a fault that never takes hold matters
    results: Mapping[str, Any] | None = None  # None: it is not known to have been run

    @property
    def simulated(self) -> bool:
        """Whether it is the same again to the byte."""
        return self.spec.env == SIM

    @property
    def broken(self) -> frozenset[str]:
        """The invariants that it broke, as far as that is known."""
        anomalies = (self.results or {}).get("anomalies") or ()
        return frozenset(str(anomaly["invariant"]) for anomaly in anomalies)

    @property
    def first_broken(self) -> str | None:
        """The invariant that it broke first, as far as that is known."""
        results = self.results or {}
        if results.get("stopped"):
            return str(results["stopped"]["invariant"])
        moments = [(a.get("time_ns"), str(a["invariant"])) for a in results.get("anomalies") or ()]
        moments.sort(key=lambda moment: (moment[0] is None, moment[0] or 0))
        return moments[0][1] if moments else None


def meant(text: str, pinned: Mapping[str, Any], seed: int | None, store: Store) -> Meant:
    """What ``text`` stands for.

    Args:
        text: A run's folder or a file in it, its name, its seed, or ``latest``; a schedule or a
            folder with one; a seed.
        pinned: The options that were given, fields of RunSpec.
        seed: What a schedule that has no spec beside it is played with.
        store: Where runs are looked for.

    Raises:
        UsageError: There is no such run, seed or file, it cannot be read, or it does not fit.
    """
    file = _schedule_file(Path(text))
    if file is not None:
        found = _schedule(file, pinned, seed)
    elif seed is not None:
        raise UsageError(f"--seed {seed}: is of a schedule without a spec.json, and {text} is none")
    elif pinned:
        found = _seed(text, pinned)
    else:
        run = _run(text, store)
        found = _seed(text, pinned) if run is None else _stored(run)
    check(found.spec, found.faults, found.name)
    return found


def check(spec: RunSpec, faults: tuple[Fault, ...], name: str) -> None:
    """Refuse options and schedules that cannot be run; raises UsageError."""
    bounds = {
        "voters": (1, VOTERS_MAX),
        "observers": (0, OBSERVERS_MAX),
        "concurrency": (1, CONCURRENCY_MAX),
    }
    for field, (least, most) in bounds.items():
        if not least <= getattr(spec, field) <= most:
            raise UsageError(
                f"{name}: {field} is {getattr(spec, field)}, want {least} to {most}; correct it "
                "in its spec.json"
            )
    check_mutant(spec)
    schedule.check(faults, spec, name)


def _schedule_file(path: Path) -> Path | None:
    """The schedule that is meant, unless it is the one of a run that was judged."""
    if path.is_dir():
        path = RunDir(path).schedule
    if path.suffix != SUFFIX or not path.is_file():
        return None
    run = RunDir(path.parent)
    judged = run.spec.is_file() and run.results.is_file()
    return None if path == run.schedule and judged else path


def _schedule(file: Path, pinned: Mapping[str, Any], seed: int | None) -> Meant:
    if asked_for(pinned):
        raise UsageError(f"--nemesis: {file} says itself which faults there are; leave it out")
    faults = tuple(schedule.load(file))
    beside = RunDir(file.parent).spec
    if not beside.is_file():
        named = {"nemeses": tuple(sorted({fault.nemesis for fault in faults})) or ("none",)}
        spec = draw(SEED if seed is None else seed, {**pinned, **named})
    elif seed is not None:
        raise UsageError(f"--seed {seed}: {beside} has one; change it there, or move the schedule")
    else:
        spec = load_spec(beside)
        settings = {**spec.settings, **pinned.get("settings", {})}
        spec = replace(spec, **{**pinned, "settings": settings})
    return Meant(str(file), spec, faults)


def _run(text: str, store: Store) -> Path | None:
    """The run's folder; None for a seed that is not in the store."""
    try:
        return store.resolve(text).path
    except UsageError:
        if text.isdigit():
            return None
        raise


def _stored(path: Path) -> Meant:
    run = RunDir(path)
    results = load_results(run)
    checkers = {str(result.get("checker")) for result in (results or {}).get("results", ())}
    return Meant(str(path), load_spec(run.spec), load_faults(run), COVERAGE in checkers, results)


def _seed(text: str, pinned: Mapping[str, Any]) -> Meant:
    if not text.isdigit() or int(text) > SEED_MAX:
        raise UsageError(
            f"{text}: options are of a seed, from 0 to {SEED_MAX}, or of a schedule; a run of the "
            "store has its own"
        )
    plan = plan_of_seed(int(text), pinned)
    return Meant(f"seed {text}", plan.spec, tuple(plan.faults), asked_for(pinned))
