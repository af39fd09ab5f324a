"""Whole runs over ssh, on three hosts with a real sshd each: what they show and what they leave."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.history.ops import read_jsonl
from harness.store.folder import Store
from tests.support.commands.process import COMMAND, environ, journals, run
from tests.support.ssh.hosts import Hosts, sshd_hosts

pytestmark = pytest.mark.slow

SMALL = {"env": "ssh", "voters": 3, "observers": 0, "rate": 60}
TIMEOUT_S = 90.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        yield made


def test_a_run_with_faults_is_valid_has_evidence_of_each_and_leaves_nothing(
    hosts: Hosts, tmp_path: Path
) -> None:
    faults = "kill,partition-isolate-leader"
    ran = run(tmp_path, **SMALL, hosts=hosts.file(tmp_path), nemesis=faults, time_limit=6, seed=2)
    assert ran.code in (0, 2), ran.explain()  # 2: too short for each to be installed
    assert ran.summary["system"] == "valid", ran.explain()
    assert ran.summary["harness_error"] is None, ran.explain()
    injected = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in injected if value["outcome"] == "installed"]
    assert len(installed) >= 2, injected
    assert all(value["evidence"] for value in installed)
    assert [value for value in injected if value["outcome"] == "failed"] == []
    assert hosts.left(tmp_path) == []
    assert journals(tmp_path / "state") == []
    for node in ("n1", "n2", "n3"):
        assert ran.run_dir.path.joinpath("logs", f"{node}.log").read_text()
        assert ran.run_dir.path.joinpath("events", f"{node}.jsonl").read_text()
        assert any(ran.run_dir.path.joinpath("nodes", node, "data").rglob("*.log"))


def test_a_host_that_dies_ends_the_run_with_255_its_history_and_its_report(
    hosts: Hosts, tmp_path: Path
) -> None:
    args = [f"--hosts={hosts.file(tmp_path)}", "--nemesis=none", "--time-limit=4", "--seed=1"]
    args += [f"--{name}={value}" for name, value in SMALL.items()]
    out = tmp_path / "said.txt"
    dying = hosts.hosts[2]
    with (
        out.open("wb") as said,
        subprocess.Popen(
            [*COMMAND, "run", *args, f"--store={tmp_path / 'store'}"],
            cwd=tmp_path,
            env=environ(tmp_path / "state"),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while "phase main" not in out.read_text():
                assert time.monotonic() < deadline, out.read_text()
                assert process.poll() is None, out.read_text()
                time.sleep(0.01)
            dying.down()
            code = process.wait(TIMEOUT_S)
        finally:
            process.kill()
            if dying.server is None:
                dying.up()
    assert code == 255, out.read_text()
    assert f"host root@{dying.address} is lost: the connection was closed" in out.read_text()
    assert "Traceback" not in out.read_text()
    run_dir = Store(tmp_path / "store").resolve("latest")
    assert [op for op in read_jsonl(run_dir.history) if op.type == "ok"]
    assert run_dir.report.is_file()
    assert "INVALID" not in out.read_text()
    assert (run_dir.path / "events.partial" / "n3.jsonl").read_text()  # until it died
