"""Other commands of ours as processes: what one of them breaks is told, and ends nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.nightly.plan import Canary, Live
from harness.verdict import EXIT_HARNESS

GRACE_S: Final = 60.0  # from being asked to end until being killed
TOLD_MAX: Final = 400  # characters of what a command has complained of


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has printed, or why there is nothing to read."""

    code: int
    value: dict[str, Any]
    broken: str | None = None


def krucible(arguments: Sequence[str], limit_s: float) -> Answer:
    """Run a command with ``--json``; one that takes longer is ended, then killed.

    Its whole process group goes with it. Ctrl-C ends the command in good order first.
    """
    command = [sys.executable, "-c", "from harness.cli import main; main()", *arguments, "--json"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            why = f"krucible {arguments[0]}: stopped: it took more than {limit_s:g} s"
            return Answer(EXIT_HARNESS, {}, why)
        except BaseException:
            _end(process)
            raise
    return _answer(arguments[0], process.returncode, out, err)


def _answer(verb: str, code: int, out: bytes, err: bytes) -> Answer:
    try:
        value = msgspec.json.decode(out.strip().rpartition(b"\n")[2])
    except msgspec.DecodeError:
        value = None
    if isinstance(value, dict):
        return Answer(code, value)
    told = err.decode(errors="replace").strip()[-TOLD_MAX:]
    return Answer(code, {}, f"krucible {verb} exited with {code}: {told}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end in good order, then kill all that it has begun."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# --------------------------------------------------------------------------- arguments


def run_arguments(live: Live, seed: int, store: Path) -> list[str]:
    """Of ``krucible run``, for a run of an entry."""
    settings = [
        part for key, value in live.settings.items() for part in ("--set", f"{key}={value}")
    ]
    return [
        *("run", "--seed", str(seed), "--store", str(store)),
        *("--system", live.system, "--env", live.env, "--workload", live.workload),
        *("--nemesis", ",".join(live.nemesis), "--voters", str(live.voters)),
        *("--observers", str(live.observers), "--time-limit", str(live.time_limit)),
        *("--rate", str(live.rate), "--concurrency", str(live.concurrency)),
        *(() if live.mutant is None else ("--mutant", live.mutant)),
        *settings,
    ]


def canary_arguments(canary: Canary, seed: int, store: Path) -> list[str]:
    """Of ``krucible run``, for a seeded bug with real processes."""
    return [
        *("run", "--mutant", canary.mutant, "--seed", str(seed), "--store", str(store)),
        *("--workload", canary.workload, "--time-limit", str(canary.time_limit)),
        *("--nemesis", "all"),
    ]
