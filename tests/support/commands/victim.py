"""A run in a process of its own, to be killed; and how it is looked at afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from harness.agent.mounts import users
from harness.envs.clocks.jvm_attach import TEMPORARY
from harness.envs.clocks.traces import SHARED, traces
from harness.envs.disks.fuse.disk import MOUNT_ENTRY
from harness.errors import UsageError
from harness.healing.journal import Entry, read_journal
from harness.history.ops import read_jsonl
from harness.processes.procfs import state_of
from harness.run.explained import findings_of
from harness.store.folder import RunDir, Store
from harness.store.reading import load_run
from harness.verdict import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from tests.support.commands.process import COMMAND, environ, journals, krucible, marked

TITLE = r"faults planned -> "  # the first line: the run has its folder
TIMEOUT_S = 120.0


def kills(usual: int) -> int:
    """How many harnesses to kill: more than the suite has time for by ``KRUCIBLE_KILLS=50``."""
    return int(os.environ.get("KRUCIBLE_KILLS", usual))


class Victim:
    """A run under way; its store, its state and what it says are in ``folder``."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._process = process
        self._installed: list[Entry] = []  # and undone again; as of the signal
        self._foreign = set(SHARED.iterdir())  # of others, whose pids ours may have got

    @property
    def said(self) -> str:
        """What it has printed."""
        return (self.folder / "said.txt").read_text(encoding="utf-8")

    def until_said(self, pattern: str) -> None:
        """Wait until it has printed something like that."""
        deadline = time.monotonic() + TIMEOUT_S
        while not re.search(pattern, self.said):
            assert time.monotonic() < deadline, f"never said {pattern!r}: {self.said}"
            assert self._process.poll() is None, f"ended before {pattern!r}: {self.said}"
            time.sleep(0.005)

    @property
    def state(self) -> Path:
        """Where its heal journal is."""
        return self.folder / "state"

    @property
    def run_dir(self) -> RunDir:
        """Where it is stored; raises UsageError when it has no folder yet."""
        return Store(self.folder / "store").resolve("latest")

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        return self._process.wait(TIMEOUT_S)

    def stop(self) -> None:
        """Have it stand still: what happens from now on it does not notice."""
        self._process.send_signal(signal.SIGSTOP)

    def send(self, number: signal.Signals) -> int:
        """Signal it and wait for its end; returns its exit code."""
        self._installed = [e for path in journals(self.state) for e in read_journal(path)[1]]
        self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)

    def kill_within(self, most_s: float, label: str) -> None:
        """Kill it at a moment that the label decides; it may have ended before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(Random(label).uniform(0.0, most_s))
        self.send(signal.SIGKILL)

    def assert_healed(self) -> None:
        """A heal leaves nothing on this host, and the run can be read and judged."""
        pids = {int(entry.what["pid"]) for entry in self._installed if "pid" in entry.what}
        mounts = [str(e.what["source"]) for e in self._installed if e.kind == MOUNT_ENTRY]
        healed = krucible(self.folder, "heal")
        assert healed.code == 0, healed.explain()
        assert [(pid, state_of(pid)) for pid in marked(self.state)] == []
        assert journals(self.state) == []
        assert [(source, list(users(source))) for source in mounts if list(users(source))] == []
        left = {path for pid in pids for path in _traces(pid) if path.exists()}
        assert left <= self._foreign
        assert krucible(self.folder, "heal").code == 0
        try:
            run_dir = self.run_dir
        except UsageError:  # killed before it had a folder
            assert not re.search(TITLE, self.said)
            return
        if run_dir.history.is_file():
            read_jsonl(run_dir.history).intervals()  # raises when it is not a history
        load_run(run_dir.path)
        judged = krucible(self.folder, "check", run_dir.path)
        assert "Traceback" not in judged.err
        # It may be too short to be sure, but a dead harness is never the nodes' fault.
        if judged.code not in (EXIT_VALID, EXIT_UNKNOWN):
            results = load_run(run_dir.path).results
            assert judged.code == EXIT_INVALID, judged.explain()
            assert results is not None, judged.explain()
            assert findings_of(results["anomalies"]), judged.explain()


def _traces(pid: int) -> Iterator[Path]:
    """What a process may leave on this host beside its run's folder."""
    yield from traces(pid, Path("/nowhere"))
    yield from TEMPORARY.glob(f"hsperfdata_*/{pid}")


@contextlib.contextmanager
def running(folder: Path, options: Mapping[str, object]) -> Iterator[Victim]:
    """``krucible run`` in its own process group; what a failed test leaves of it is healed away."""
    args = [f"--{name}={value}" for name, value in options.items()]
    with (folder / "said.txt").open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "run", *args, f"--store={folder / 'store'}"],
            cwd=folder,
            env=environ(folder / "state"),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Victim(folder, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        krucible(folder, "heal")
