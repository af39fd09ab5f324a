"""Whole runs in containers: what they show, what kills them, what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harness.envs.docker.plugin import Docker
from harness.errors import EnvError, UsageError
from harness.healing.journal import Journal
from harness.store.folder import Store
from tests.support.commands.process import COMMAND, environ, journals, krucible, marked, run
from tests.support.docker.cluster import left_of, need_engine
from tests.support.docker.foreign import foreign
from tests.support.docker.proxy import proxy

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# More moments than the suite has time for, e.g. KRUCIBLE_KILLS=50.
KILLS = int(os.environ.get("KRUCIBLE_KILLS", "1"))
SMALL = {"env": "docker", "voters": 3, "observers": 0, "rate": 60}
TIMEOUT_S = 90.0
MOMENT_MAX_S = 16.0  # of start-up, faults, recovery and teardown


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine()


def assert_nothing_left(state: Path) -> None:
    assert left_of(state) == []
    assert marked(state) == []
    assert journals(state) == []


def test_a_run_with_faults_is_valid_and_has_evidence_of_each(tmp_path: Path) -> None:
    ran = run(tmp_path, **SMALL, nemesis="kill,pause,partition-halves", time_limit=8, seed=3)
    assert ran.code in (0, 2), ran.explain()  # 2: too short for each to be installed
    assert ran.summary["system"] == "valid", ran.explain()
    assert ran.summary["harness_error"] is None, ran.explain()
    injected = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in injected if value["outcome"] == "installed"]
    assert len(installed) >= 2, injected
    assert all(value["evidence"] for value in installed)
    assert [v for v in injected if v["outcome"] == "failed"] == []
    assert_nothing_left(tmp_path / "state")
    for node in ("n1", "n2", "n3"):
        assert ran.run_dir.path.joinpath("logs", f"{node}.log").read_text()


@pytest.mark.long
def test_a_seeded_bug_is_caught_in_containers_too(tmp_path: Path) -> None:
    ran = run(tmp_path, **SMALL, mutant="forgotten-vote", nemesis="kill", time_limit=8, seed=1)
    assert ran.code == 1, ran.explain()
    assert ran.invariants & {"S2", "S3"}, ran.explain()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DOCKER_HOST", "unix:///nowhere.sock", "no Docker Engine answers at unix:///nowhere"),
        ("DOCKER_HOST", "tcp://127.0.0.1:1", "the Engine must be on this host"),
        ("KRUCIBLE_NODE_IMAGE", "krucible-none:1", "the Engine has no such image"),
        ("KRUCIBLE_BASE_IMAGE", "localhost:1/none:1", "lacks the base image localhost:1/none:1"),
        ("KRUCIBLE_DOCKER_POOL", "127.0.0.0/25", "KRUCIBLE_DOCKER_POOL is 127.0.0.0/25"),
        ("KRUCIBLE_DOCKER_POOL", "host", "KRUCIBLE_DOCKER_POOL is 'host'"),
        ("KRUCIBLE_DOCKER_POOL", "172.17.0.0/24", "no free network in 172.17.0.0/24"),
    ],
)
def test_what_cannot_begin_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    journal = Journal.open("r", folder=tmp_path / "state")
    with pytest.raises(EnvError, match=re.escape(said)):
        asyncio.run(Docker(tmp_path, journal).setup(("n1",)))
    assert journal.open_entries() == ()
    journal.close()
    monkeypatch.undo()
    assert_nothing_left(tmp_path / "state")


def test_a_run_that_cannot_begin_exits_255_with_one_clear_line(tmp_path: Path) -> None:
    ran = krucible(
        tmp_path, "run", "--store", tmp_path, "--env", "docker", DOCKER_HOST="unix:///none.sock"
    )
    assert ran.code == 255, ran.explain()
    assert "no Docker Engine answers at unix:///none.sock" in ran.err
    assert "Traceback" not in ran.err


def test_an_engine_that_goes_away_ends_the_run_with_its_report(tmp_path: Path) -> None:
    with proxy() as engine, running(tmp_path, DOCKER_HOST=engine.host) as victim:
        until_said(victim, "pause installed")
        engine.down()
        assert victim.wait(TIMEOUT_S) == 255, said(tmp_path)
        assert "Traceback" not in said(tmp_path)
        assert "does not answer" in said(tmp_path) or "no Docker Engine" in said(tmp_path)
        run_dir = Store(tmp_path / "store").resolve("latest")
        assert run_dir.history.is_file()
        assert run_dir.report.is_file()
        assert left_of(tmp_path / "state") != []
        failed = krucible(tmp_path, "heal", DOCKER_HOST=engine.host)
        assert failed.code == 255, failed.explain()
        assert "STILL THERE" in failed.out
        engine.up()
        healed = krucible(tmp_path, "heal", DOCKER_HOST=engine.host)
        assert healed.code == 0, healed.explain()
        assert_nothing_left(tmp_path / "state")


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment_nothing_of_ours_stays_and_all_else_does(
    tmp_path: Path, number: int
) -> None:
    with (
        foreign(f"somebody-{os.getpid()}-{number}") as somebody,
        running(tmp_path, nemesis="all", seed=number) as victim,
    ):
        with contextlib.suppress(subprocess.TimeoutExpired):
            victim.wait(Random(f"moment {number}").uniform(0.5, MOMENT_MAX_S))
        victim.send_signal(signal.SIGKILL)
        victim.wait(TIMEOUT_S)
        healed = krucible(tmp_path, "heal")
        assert healed.code == 0, healed.explain()
        assert_nothing_left(tmp_path / "state")
        assert somebody.now() == somebody.before
        with contextlib.suppress(UsageError):  # killed before it had a folder
            run_dir = Store(tmp_path / "store").resolve("latest")
            judged = krucible(tmp_path, "check", run_dir.path)
            assert judged.code in (0, 2), judged.explain()


def test_the_watchdog_heals_when_nobody_else_does(tmp_path: Path) -> None:
    with running(tmp_path) as victim:
        until_said(victim, "pause installed")
        victim.send_signal(signal.SIGKILL)
        victim.wait(TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        log = Store(tmp_path / "store").resolve("latest").path / "watchdog.log"
        while "the harness died" not in log.read_text():  # it says so when it has healed
            assert time.monotonic() < deadline, left_of(tmp_path / "state")
            time.sleep(0.05)
        assert left_of(tmp_path / "state") == []
        assert journals(tmp_path / "state") == []


def test_a_harness_that_hangs_loses_its_containers(tmp_path: Path) -> None:
    with running(tmp_path, KRUCIBLE_HANG_S="4") as victim:
        until_said(victim, "phase main")
        victim.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + TIMEOUT_S
        while left_of(tmp_path / "state"):
            assert time.monotonic() < deadline, left_of(tmp_path / "state")
            time.sleep(0.05)
        victim.send_signal(signal.SIGCONT)
        assert victim.wait(TIMEOUT_S) == 255, said(tmp_path)


# --------------------------------------------------------------------------- helpers


@contextlib.contextmanager
def running(
    folder: Path, *, nemesis: str = "pause", seed: int = 1, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A run with faults in its own process group; whatever is left of it is healed away."""
    args = ["--nemesis", nemesis, "--time-limit", "12", "--seed", str(seed)]
    for name, value in SMALL.items():
        args += [f"--{name}", str(value)]
    with (folder / "said.txt").open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "run", *args, "--store", str(folder / "store")],
            cwd=folder,
            env={**environ(folder / "state"), **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        krucible(folder, "heal")


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(encoding="utf-8")


def until_said(process: subprocess.Popen[bytes], pattern: str) -> None:
    """Wait until it has printed a line like that."""
    folder = Path(str(process.args[-1])).parent  # type: ignore[index]
    deadline = time.monotonic() + TIMEOUT_S
    while not re.search(pattern, said(folder)):
        assert time.monotonic() < deadline, f"never said {pattern!r}: {said(folder)}"
        assert process.poll() is None, f"ended before it said {pattern!r}: {said(folder)}"
        time.sleep(0.01)
