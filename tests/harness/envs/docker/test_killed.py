"""A dockerd that is really killed in the middle of a run: what the run says, and what is healed."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import pytest

from harness.envs.docker.engine import Engine
from harness.envs.docker.heal import RUN_LABEL
from harness.envs.docker.image import IMAGE_VARIABLE
from harness.history.ops import read_jsonl
from harness.store.folder import Store
from tests.support.commands.process import COMMAND, environ, journals, krucible, marked
from tests.support.docker.cluster import need_engine
from tests.support.docker.private import PrivateEngine, private_engine

pytestmark = [pytest.mark.docker, pytest.mark.slow]

TIMEOUT_S = 60.0


def test_a_killed_dockerd_ends_the_run_with_255_and_what_it_left_is_healed_once_it_is_back(
    tmp_path: Path,
) -> None:
    need_engine()
    with private_engine() as (engine, image):
        out = tmp_path / "said.txt"
        args = ["--env=docker", "--voters=1", "--observers=0", "--nemesis=pause", "--seed=1"]
        args += ["--rate=40", "--time-limit=5", f"--store={tmp_path / 'store'}"]
        chosen = {"DOCKER_HOST": engine.host, IMAGE_VARIABLE: image}
        with (
            out.open("wb") as said,
            subprocess.Popen(
                [*engine.enter(), *COMMAND, "run", *args],
                cwd=tmp_path,
                env={**environ(tmp_path / "state"), **chosen},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                until_said(process, out, "pause installed")
                assert left(engine) != []
                engine.kill()  # with a container frozen; it outlives its daemon
                assert process.wait(TIMEOUT_S) == 255, out.read_text()
            finally:
                process.kill()
        assert "does not answer" in out.read_text()
        assert "look whether dockerd runs, then `krucible heal`" in out.read_text()
        assert "Traceback" not in out.read_text()
        run_dir = Store(tmp_path / "store").resolve("latest")
        assert [op for op in read_jsonl(run_dir.history) if op.type == "ok"]
        assert run_dir.report.is_file()

        assert journals(tmp_path / "state") != []
        engine.up()
        healed = krucible(tmp_path, "heal")  # or the run's watchdog did it already
        assert healed.code == 0, healed.explain()
        assert left(engine) == []
    assert marked(tmp_path / "state") == []
    assert journals(tmp_path / "state") == []


def left(engine: PrivateEngine) -> list[str]:
    """What is there of runs."""
    with contextlib.closing(Engine.connect(engine.host)) as asked:
        things = [*asked.containers(RUN_LABEL), *asked.networks(RUN_LABEL)]
    return [str(thing["Id"]) for thing in things]


def until_said(process: subprocess.Popen[bytes], out: Path, words: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while words not in out.read_text():
        assert time.monotonic() < deadline, out.read_text()
        assert process.poll() is None, out.read_text()
        time.sleep(0.01)
