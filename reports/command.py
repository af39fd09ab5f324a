"""Command lines that bring a run back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from harness.spec import SIM, STEADY, RunSpec
from harness.verdict import Valid
from reports.model import Command
from reports.text import clean

REPLAYS = 10


def commands(spec: RunSpec, result: Mapping[str, Any]) -> tuple[Command, ...]:
    """How to replay the recorded run, what to do with a failure, how to run the options anew."""
    run = result.get("store") or result.get("run")
    recorded = clean(run if isinstance(run, str) else spec.seed)
    found = [Command("replay the recorded schedule", line("repro", recorded))]
    if result.get("system") == Valid.INVALID.value:
        if spec.env == SIM:
            found.append(Command("find the least that still fails", line("shrink", recorded)))
        else:
            again = line("repro", recorded, "--times", REPLAYS)
            found.append(Command("count how often it fails again", again))
    if spec.env != SIM:
        found.append(Command("run the same options again", _run_line(spec)))
    return tuple(found)


def _run_line(spec: RunSpec) -> str:
    options: list[tuple[str, object]] = [
        ("--seed", spec.seed),
        ("--system", spec.system),
        ("--env", spec.env),
        ("--voters", spec.voters),
        ("--observers", spec.observers),
        ("--workload", spec.workload),
        ("--nemesis", ",".join(spec.nemeses) or "none"),
        ("--time-limit", f"{spec.time_limit_s:g}"),
        ("--rate", f"{spec.rate_hz:g}"),
        ("--concurrency", spec.concurrency),
    ]
    if spec.pace != STEADY:
        options.append(("--pace", spec.pace))
    if spec.mutant is not None:
        options.append(("--mutant", spec.mutant))
    options += [("--set", f"{key}={spec.settings[key]}") for key in sorted(spec.settings)]
    return line("run", *(word for name, value in options for word in (name, value)))


def line(*words: object) -> str:
    """``krucible`` with these words, quoted for a shell."""
    return " ".join(["krucible", *(shlex.quote(clean(word)) for word in words)])
