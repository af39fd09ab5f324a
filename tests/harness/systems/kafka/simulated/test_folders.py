"""Real folders for the logs of simulated nodes: who may have them, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.hosts import Clocks, Disks, Power
from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.spec import RunSpec
from harness.systems.kafka.simulated.folders import LOG, Folders, check_log, why_not

REAL = {LOG: "real"}
# ends a process of its own amid a simulation, with a file in a folder
KILLED = """
import sys
from harness.systems.kafka.simulated.folders import Folders
folder = Folders().of("n1")
(folder / "quorum-state").write_text("{}")
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files: one of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folders_go_with_the_simulation(temporary: Path) -> None:
    with Folders() as folders:
        first, second = folders.of("n1"), folders.of("n2")
        assert folders.of("n1") == first != second
        (first / "quorum-state").write_text("{}")
        assert len(list(temporary.iterdir())) == 1
    assert not list(temporary.iterdir())


def test_a_simulation_without_them_makes_none(temporary: Path) -> None:
    with Folders():
        assert not list(temporary.iterdir())


def test_the_next_simulation_removes_what_a_killed_one_left(temporary: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    left = Path(child.stdout.readline().strip())
    with Folders() as folders:
        folders.of("n1")
        assert left.is_dir(), "it is in use"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert left.is_dir()
    with Folders() as folders:
        folders.of("n1")
        assert not left.parent.exists()
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({LOG: "mine"}, "want simulated or real"),
        ({**REAL, "krucible.fsync": "false"}, "do not lie"),
        (
            {**REAL, "krucible.system.n2": "kraft"},
            "all nodes of krucible.kafka.log=real are Kafka's",
        ),
        ({**REAL, "krucible.kafka.version": "4.0.2"}, "want Apache Kafka 4.1 or newer: 4.0.2"),
        ({**REAL, "krucible.kafka.upgrade": "3.9.2"}, "want Apache Kafka 4.1 or newer: 3.9.2"),
    ],
)
def test_what_does_not_go_with_a_real_log_is_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_log(settings)


def test_a_build_without_the_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-raft-4.2.0.jar").touch()
    with pytest.raises(UsageError, match=r"has no kafka_2\.\*\.jar"):
        check_log({**REAL, "krucible.kafka.home": str(tmp_path)})
    (tmp_path / "libs" / "kafka_2.13-4.2.0.jar").touch()
    check_log({**REAL, "krucible.kafka.home": str(tmp_path)})


def test_disks_of_this_host_do_not_break() -> None:
    for ability in (Disks, Power):
        assert "where no fault can be made" in (why_not(ability, REAL) or "")
        assert why_not(ability, {}) is None
    assert why_not(Clocks, REAL) is None


@pytest.mark.parametrize("name", ["power", "disk-full", "disk"])
def test_a_fault_of_disks_that_is_asked_for_is_refused(name: str) -> None:
    spec = RunSpec(1, system="kafka", workload="register", nemeses=(name,), settings=REAL)
    with pytest.raises(UsageError, match="where no fault can be made") as refused:
        Plan.simulated(spec)
    assert len(str(refused.value).splitlines()) == 1
    plan = Plan.simulated(RunSpec(1, system="kafka", workload="register", nemeses=(name,)))
    assert plan.faults, "simulated disks break"


def test_all_faults_are_all_but_those_of_disks() -> None:
    drawn: set[str] = set()
    for seed in range(1, 5):
        spec = RunSpec(
            seed, system="kafka", workload="register", nemeses=("all",), time_limit_s=300.0
        )
        drawn.update(Plan.simulated(replace(spec, settings=REAL)).spec.nemeses)
    assert "kill" in drawn
    assert not [name for name in drawn if name.startswith("disk")]
    assert drawn.isdisjoint({"power", "membership"})
