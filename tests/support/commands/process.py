"""``krucible`` as a process of its own, and what it leaves behind on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contracts.nemesis import Fault
from harness.faults.schedule import load
from harness.healing.journal import STATE_VARIABLE
from harness.history.ops import History, Op, read_jsonl
from harness.processes.procfs import environment_of, processes
from harness.store.folder import RunDir

COMMAND = (sys.executable, "-c", "from krucible.app import main; main()")
TIMEOUT_S = 300.0  # of whatever hangs


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        """What ``--json`` printed."""
        found = json.loads(self.out)
        assert isinstance(found, dict), self.out
        return found

    @property
    def run_dir(self) -> RunDir:
        """Where the run is stored; of a repro, the last replay."""
        summary = self.summary
        return RunDir(Path(summary["store"] if "store" in summary else summary["stores"][-1]))

    @property
    def history(self) -> History:
        """Its history."""
        return read_jsonl(self.run_dir.history)

    @property
    def schedule(self) -> list[Fault]:
        """The faults that were asked for."""
        return load(self.run_dir.schedule)

    @property
    def invariants(self) -> set[str]:
        """The broken promises, by name."""
        return {anomaly["invariant"] for anomaly in self.summary["anomalies"]}

    def findings(self) -> set[str | None]:
        """Name the findings that the run's anomalies are, or follow from; None: of one, none."""
        results = json.loads(self.run_dir.results.read_bytes())["results"]
        found = [anomaly for each in results for anomaly in each["anomalies"]]
        details = [anomaly["details"] for anomaly in found]
        return {each.get("finding", each.get("after")) for each in details}

    def nemesis_ops(self, f: str, *having: str) -> list[Op]:
        """Ops of the nemesis whose value has all these fields."""
        ops = [op for op in self.history.nemesis() if op.f == f]
        return [op for op in ops if isinstance(op.value, Mapping) and {*having} <= {*op.value}]

    def explain(self) -> str:
        """Everything it said, for a failed assertion."""
        return f"exit code {self.code}\n{self.out[-4_000:]}\n{self.err[-4_000:]}"


def environ(state: Path) -> dict[str, str]:
    """The environment of a process whose heal journals lie in ``state``."""
    return {**os.environ, STATE_VARIABLE: str(state)}


def krucible(folder: Path, *args: object, **variables: str) -> Ran:
    """Run a command to its end; state and working folder are in ``folder``."""
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=folder,
        env={**environ(folder / "state"), **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run(folder: Path, **options: object) -> Ran:
    """``krucible run --json`` with ``--option value`` for each keyword argument."""
    args: list[object] = []
    for name, value in options.items():
        args += [f"--{name.replace('_', '-')}", value]
    return krucible(folder, "run", "--store", folder / "store", "--json", *args)


def marked(state: Path) -> list[int]:
    """Processes that were started for a run whose journals are in ``state``."""
    wanted = str(state)
    return [p for p in processes() if environment_of(p).get(STATE_VARIABLE) == wanted]


def journals(state: Path) -> list[Path]:
    """Heal journals that are still there."""
    return sorted(state.glob("*.jsonl"))
