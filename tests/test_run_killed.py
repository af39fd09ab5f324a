"""A harness that is killed at any moment leaves a readable run, and nothing that heal misses."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from krucible_process import COMMAND, environ, journals, krucible, marked

from harness.envs.procfs import state_of
from harness.errors import UsageError
from harness.history import read_jsonl
from harness.store import RunDir, Store
from harness.stored import load_run
from harness.verdict import EXIT_UNKNOWN, EXIT_VALID

pytestmark = pytest.mark.slow

ALL_FAULTS = "all"
TITLE = r"faults planned -> "  # the first line: the run has its folder
LINE_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0
# More moments than the suite has time for, e.g. KRUCIBLE_KILLS=30.
KILLS = int(os.environ.get("KRUCIBLE_KILLS", "2"))


@dataclass
class Victim:
    """A run under way, in a process of its own."""

    folder: Path
    process: subprocess.Popen[bytes]
    said: Path

    def until_said(self, pattern: str) -> None:
        """Wait until it has printed a line like that."""
        deadline = time.monotonic() + LINE_TIMEOUT_S
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"never said {pattern!r}: {self.text}"
            assert self.process.poll() is None, f"ended before it said {pattern!r}: {self.text}"
            time.sleep(0.005)

    @property
    def text(self) -> str:
        return self.said.read_text(encoding="utf-8")

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    @property
    def run_dir(self) -> RunDir:
        return self.store.resolve("latest")

    def send(self, number: signal.Signals) -> int:
        """Signal it and wait for its end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)


@contextlib.contextmanager
def running(folder: Path, *, nemesis: str, time_limit: float, seed: int = 1) -> Iterator[Victim]:
    """A run in its own process group; whatever a failed test leaves of it is healed away."""
    said = folder / "said.txt"
    args = ["run", "--nemesis", nemesis, "--time-limit", time_limit, "--seed", seed]
    args += ["--rate", 150, "--observers", 1, "--store", folder / "store"]
    with said.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, *map(str, args)],
            cwd=folder,
            env=environ(folder / "state"),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Victim(folder, process, said)
    finally:
        process.kill()
        process.wait()
        krucible(folder, "heal")


def assert_survived(victim: Victim) -> None:
    """The history can be read and judged, and heal leaves nothing on the host."""
    healed = krucible(victim.folder, "heal")
    assert healed.code == 0, healed.explain()
    assert [(pid, state_of(pid)) for pid in marked(victim.state)] == []
    assert journals(victim.state) == []
    assert krucible(victim.folder, "heal").code == 0
    try:
        run_dir = victim.run_dir
    except UsageError:  # killed before it had a folder
        assert not re.search(TITLE, victim.text)
        return
    if run_dir.history.is_file():
        read_jsonl(run_dir.history).intervals()  # raises when it is not a history
    load_run(run_dir.path)
    judged = krucible(victim.folder, "check", run_dir.path)
    # It may be too short to be sure, but a dead harness is never the nodes' fault.
    assert judged.code in (EXIT_VALID, EXIT_UNKNOWN), judged.explain()
    assert "Traceback" not in judged.err


@pytest.mark.parametrize(
    ("nemesis", "time_limit", "moment"),
    [
        ("none", 5, TITLE),
        ("pause", 5, "pause installed"),
        ("partition-halves", 5, "partition-halves installed"),
        ("none", 1, "phase close"),
    ],
    ids=["setup", "pause", "partition", "teardown"],
)
def test_killed_at_a_delicate_moment(
    tmp_path: Path, nemesis: str, time_limit: float, moment: str
) -> None:
    with running(tmp_path, nemesis=nemesis, time_limit=time_limit) as victim:
        victim.until_said(moment)
        time.sleep(Random(moment).uniform(0.0, 0.3))
        victim.send(signal.SIGKILL)
        assert_survived(victim)


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment(tmp_path: Path, number: int) -> None:
    with running(tmp_path, nemesis=ALL_FAULTS, time_limit=14, seed=number) as victim:
        after_s = Random(f"moment {number}").uniform(0.0, 14.0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            victim.process.wait(after_s)
        victim.send(signal.SIGKILL)
        assert_survived(victim)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle_of_a_fault(tmp_path: Path, number: signal.Signals) -> None:
    """Faults are healed, the run is judged and reported, nothing is left to heal."""
    with running(tmp_path, nemesis="pause", time_limit=20) as victim:
        victim.until_said("pause installed")
        code = victim.send(number)
        assert code == 130, victim.text
        assert "Traceback" not in victim.text
        assert marked(victim.state) == []
        assert journals(victim.state) == []
        assert victim.run_dir.report.is_file()
        assert victim.run_dir.results.is_file()
        nemesis = read_jsonl(victim.run_dir.history).nemesis()
        assert sum(op.f == "heal" and "evidence" in (op.value or {}) for op in nemesis) == 1


@pytest.mark.parametrize("moment", [TITLE, "phase open", "phase close"])
def test_interrupted_while_nodes_come_and_go(tmp_path: Path, moment: str) -> None:
    with running(tmp_path, nemesis="none", time_limit=1) as victim:
        victim.until_said(moment)
        code = victim.send(signal.SIGINT)
        assert code in (130, 0), victim.text
        assert "Traceback" not in victim.text
        assert marked(victim.state) == []
        assert journals(victim.state) == []
