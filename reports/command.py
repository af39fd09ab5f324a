"""Command lines that bring a run back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from harness.spec import RunSpec
from reports.model import Command
from reports.text import clean


def commands(spec: RunSpec, result: Mapping[str, Any]) -> tuple[Command, ...]:
    """How to replay the recorded run, and how to run the same options anew."""
    run = result.get("store") or result.get("run")
    recorded = clean(run if isinstance(run, str) else spec.seed)
    return (
        Command("replay the recorded schedule", line("repro", recorded)),
        Command("run the same options again", _run_line(spec)),
    )


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
    if spec.mutant is not None:
        options.append(("--mutant", spec.mutant))
    options += [("--set", f"{key}={spec.settings[key]}") for key in sorted(spec.settings)]
    return line("run", *(word for name, value in options for word in (name, value)))


def line(*words: object) -> str:
    """``krucible`` with these words, quoted for a shell."""
    return " ".join(["krucible", *(shlex.quote(clean(word)) for word in words)])
