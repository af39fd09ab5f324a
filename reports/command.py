"""Command lines that bring a run back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.processes.command import Program
from harness.spec import FAIR, SIM, STEADY, RunSpec
from harness.store.folder import RunDir
from harness.verdict import Valid
from reports.model import Command
from reports.text import clean

REPLAYS = 10


def commands(
    spec: RunSpec, result: Mapping[str, Any], place: RunDir | None, program: Program
) -> tuple[Command, ...]:
    """The commands that replay the stored run, look into its failure, or run its options anew.

    Args:
        spec: The run's options.
        result: The judge's answer.
        place: The run's folder; without one there is nothing to replay.
        program: The command line as a person types it.
    """
    found = []
    if place is not None:
        found += _of_stored(spec, result, place.words, program)
    if spec.env != SIM:
        found.append(Command("run the same options again", _run_line(spec, place, program)))
    return tuple(found)


def _of_stored(
    spec: RunSpec, result: Mapping[str, Any], words: tuple[str, ...], program: Program
) -> list[Command]:
    found = [Command("replay the recorded schedule", line(program, "repro", *words))]
    if result.get("system") == Valid.INVALID.value:
        if spec.env == SIM:
            shrink = line(program, "shrink", *words)
            found.append(Command("find the smallest run that still fails", shrink))
        else:
            again = line(program, "repro", *words, "--times", REPLAYS)
            found.append(Command("count how often it fails again", again))
    return found


def _run_line(spec: RunSpec, place: RunDir | None, program: Program) -> str:
    options: list[tuple[str, object]] = [
        ("--seed", spec.seed),
        ("--system", spec.system),
        ("--env", spec.env),
        ("--voters", spec.voters),
        ("--observers", spec.observers),
        ("--workload", spec.workload),
        ("--nemesis", ",".join(spec.asked or spec.nemeses) or "none"),
        ("--time-limit", f"{spec.time_limit_s:g}"),
        ("--rate", f"{spec.rate_hz:g}"),
        ("--concurrency", spec.concurrency),
    ]
    if spec.pace != STEADY:
        options.append(("--pace", spec.pace))
    if spec.weather != FAIR:
        options.append(("--weather", spec.weather))
    if spec.mutant is not None:
        options.append(("--mutant", spec.mutant))
    options += [("--set", f"{key}={spec.settings[key]}") for key in sorted(spec.settings)]
    if place is not None:
        hosts = place.read_origin().hosts
        options += [] if hosts is None else [("--hosts", hosts)]
        options.append(("--store", place.store))
    return line(program, "run", *(word for name, value in options for word in (name, value)))


def line(program: Program, *words: object) -> str:
    """A command line with these words, safe to show and quoted for a shell."""
    return program.line(*map(clean, words))
