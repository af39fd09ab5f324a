"""The run that RUN, SCHEDULE or --seed means: the same for ``repro`` and ``shrink``.

A stored run is repeated as it was, or on another release of Apache Kafka. A schedule is played
with the ``spec.json`` beside it, or with what a seed draws for the rest. ``--seed`` alone is drawn
as ``krucible sim --seed`` draws it.
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
from krucible.arguments import (
    CONCURRENCY_MAX,
    KAFKA_HOME,
    KAFKA_VERSION,
    OBSERVERS_MAX,
    VOTERS_MAX,
    check_mutant,
)
from krucible.options import asked_for, plan_of_seed

SEED = 1  # what a schedule without a spec is played with when nobody says
SUFFIX = ".jsonl"
RELEASE = frozenset({KAFKA_VERSION, KAFKA_HOME})  # settings; only one of them is given


@dataclass(frozen=True, slots=True)
class Meant:
    """One run to be repeated: all that decides it, and how it ended the last time."""

    name: str  # as it is told
    spec: RunSpec
    faults: tuple[Fault, ...]
    asked_for: bool = True  # whether a fault that never takes hold matters
    results: Mapping[str, Any] | None = None  # None: it is not known to have been run
    of: str | None = None  # the id of the stored run
    hosts: str | None = None  # the file of the hosts that it ran on
    changed: bool = False  # it goes on where the stored run ended, or has another release

    @property
    def simulated(self) -> bool:
        """Tell whether it is the same again to the byte."""
        return self.spec.env == SIM

    @property
    def trace_sha256(self) -> str | None:
        """The digest of the stored run's trace; None where a replay need not have the same."""
        told = (self.results or {}).get("trace_sha256")
        return None if self.changed or not told else str(told)  # empty: nothing was seen of it

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


def meant(
    text: str | None, pinned: Mapping[str, Any], seed: int | None, store: Store, verb: str = "repro"
) -> Meant:
    """The run that the arguments of ``repro`` or ``shrink`` mean.

    Args:
        text: A stored run by folder, a file in it, id, name, seed or ``latest``; a schedule, or a
            folder with one; None for the seed.
        pinned: The options that were given, fields of RunSpec.
        seed: A seed to simulate, or to play a schedule with that has no spec beside it.
        store: The store in which runs are looked for.
        verb: The command, for its error texts.

    Raises:
        UsageError: There is no such run or file, it cannot be read, or the options do not fit it.
    """
    file = None if text is None else _schedule_file(Path(text))
    if file is not None:
        found = _schedule(file, pinned, seed)
    elif text is None:
        found = _seed(seed, pinned, verb)
    else:
        found = _stored(_run(text, store, verb), pinned, seed, verb)
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
        raise UsageError(f"--nemesis: the faults are those of {file}; leave --nemesis out")
    faults = tuple(schedule.load(file))
    beside = RunDir(file.parent).spec
    if not beside.is_file():
        named = {"nemeses": tuple(sorted({fault.nemesis for fault in faults})) or ("none",)}
        spec = draw(SEED if seed is None else seed, {**pinned, **named})
    elif seed is not None:
        raise UsageError(
            f"--seed {seed}: {beside} has a seed; change it there, or move the schedule"
        )
    else:
        spec = load_spec(beside)
        settings = _with(spec.settings, pinned.get("settings", {}))
        spec = replace(spec, **{**pinned, "settings": settings})
    origin = RunDir(file.parent).read_origin()
    return Meant(str(file), spec, faults, of=origin.of, hosts=origin.hosts)


def _with(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings with those that are given; a release takes the place of the one before."""
    dropped = RELEASE if given.keys() & RELEASE else frozenset[str]()
    return {**{name: settings[name] for name in settings if name not in dropped}, **given}


def _run(text: str, store: Store, verb: str) -> RunDir:
    """The stored run; raises UsageError when there is none."""
    try:
        return store.resolve(text)
    except UsageError as error:
        if not text.isdigit() or any(str(run.seed) == text for run in store.runs()):
            raise
        raise UsageError(
            f"{error}; to simulate that seed: krucible {verb} --seed {text}"
        ) from error


def _stored(run: RunDir, pinned: Mapping[str, Any], seed: int | None, verb: str) -> Meant:
    """A stored run as it was; to its end, or on another release, where that is asked for."""
    own = load_spec(run.spec)
    given = pinned.get("settings", {})
    if seed is not None or pinned.keys() - {"stop_at", "settings"} or given.keys() - RELEASE:
        raise UsageError(
            f"{run.id}: a stored run has its own seed and options: leave them out; to simulate "
            f"a seed with options: krucible {verb} --seed {own.seed} ..."
        )
    spec = replace(own, settings=_with(own.settings, given))
    if "stop_at" in pinned:
        spec = replace(spec, stop_at=pinned["stop_at"])
    if spec.stop_at != own.stop_at and own.env != SIM:
        raise UsageError(f"--go-on: {run.id} ran on {own.env}; only a simulation ends early")
    results, origin = load_results(run), run.read_origin()
    checkers = {str(result.get("checker")) for result in (results or {}).get("results", ())}
    return Meant(
        run.told,
        spec,
        load_faults(run),
        COVERAGE in checkers,
        results,
        run.id,
        origin.hosts,
        changed=spec != own,
    )


def _seed(seed: int | None, pinned: Mapping[str, Any], verb: str) -> Meant:
    if seed is None:
        raise UsageError(
            f"name a run (id, folder or latest) or a schedule; or simulate a seed: "
            f"krucible {verb} --seed N"
        )
    plan = plan_of_seed(seed, pinned)
    return Meant(f"seed {seed}", plan.spec, tuple(plan.faults), asked_for(pinned))
