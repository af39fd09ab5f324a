"""The starting corpus: the runs that a search begins with, in a file.

Fuzzers call it a seed corpus. It was distilled from many runs of a healthy system, so that a search
need not find the way to rare states again each time: a run of it reaches them in a second or less.

A line of the file is a run, in the order to play them::

    {"spec": {...}, "faults": [{...}, ...]}

with spec and faults as a stored run has them. The project brings such a file for its own node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.errors import UsageError
from harness.faults import schedule
from harness.faults.choice import select
from harness.sessions.swarm import DEFAULT_SYSTEM
from harness.shrink.moves import Candidate
from harness.spec import RunSpec

OURS: Final = Path(__file__).with_name("starting.jsonl")
# Options that a run takes from whoever searches, whatever it was distilled with.
TAKEN: Final = frozenset({"mutant", "stop_at"})


def save(path: Path, runs: Iterable[Candidate]) -> None:
    """Write a starting corpus; the file appears whole or not at all."""
    lines = [
        msgspec.json.encode(
            {"spec": run.spec.to_json(), "faults": [fault.to_json() for fault in run.faults]}
        )
        for run in runs
    ]
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.write_bytes(b"".join(line + b"\n" for line in lines))
        os.replace(draft, path)  # noqa: PTH105 - the same call everywhere that must be atomic
    except OSError as error:
        raise UsageError(f"{path}: cannot write the corpus: {error.strerror}") from error


def load(path: Path) -> list[Candidate]:
    """Read a starting corpus; raises UsageError, with the line, for what is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the corpus: {error.strerror}") from error
    runs = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            told = msgspec.json.decode(line)
            spec = RunSpec.from_json(told["spec"])
            faults = tuple(schedule.fault_from_json(fault) for fault in told["faults"])
        except (ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
            raise UsageError(f"{path}:{number}: not a run of a corpus: {error}") from error
        runs.append(Candidate(spec, faults))
    return runs


def fitting(runs: Iterable[Candidate], given: Mapping[str, Any]) -> list[Candidate]:
    """Give the runs that have what was given, in their order.

    A run keeps all that was drawn for it, so one with another workload, say, is left out; only a
    seeded bug and what ends a run are put in.

    Args:
        runs: A starting corpus.
        given: Fields of RunSpec, as ``swarm.draw`` takes them.
    """
    taken = {name: value for name, value in given.items() if name in TAKEN}
    asked = {"system": DEFAULT_SYSTEM, **given}
    if "nemeses" in asked:
        asked["nemeses"] = frozenset(name for name, _ in select(asked["nemeses"], None))
    names = asked.keys() - TAKEN
    return [
        run.with_spec(**taken)
        for run in runs
        if all(_is_so(run, name, asked[name]) for name in names)
    ]


def _is_so(run: Candidate, name: str, value: Any) -> bool:
    match name:
        case "settings":
            return bool(value.items() <= run.spec.settings.items())
        case "nemeses":
            kinds = {fault.nemesis for fault in run.faults}
            return bool(kinds <= value) and bool(kinds or not value)
        case _:
            return bool(getattr(run.spec, name) == value)
