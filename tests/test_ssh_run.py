"""Whole runs over ssh, on three hosts with a real sshd each: what they show and what they leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from krucible_process import journals, run
from sshd_hosts import Hosts, sshd_hosts

pytestmark = pytest.mark.slow

SMALL = {"env": "ssh", "voters": 3, "observers": 0, "rate": 60}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        yield made


def assert_nothing_left(hosts: Hosts, folder: Path) -> None:
    assert hosts.left(folder) == []
    assert journals(folder / "state") == []


def test_a_run_with_kills_is_valid_and_leaves_nothing(hosts: Hosts, tmp_path: Path) -> None:
    ran = run(tmp_path, **SMALL, hosts=hosts.file(tmp_path), nemesis="kill", time_limit=5, seed=3)
    assert ran.code in (0, 2), ran.explain()  # 2: too short for each to be installed
    assert ran.summary["system"] == "valid", ran.explain()
    assert ran.summary["harness_error"] is None, ran.explain()
    injected = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    assert [value for value in injected if value["outcome"] == "installed"], injected
    assert [value for value in injected if value["outcome"] == "failed"] == []
    assert_nothing_left(hosts, tmp_path)
    for node in ("n1", "n2", "n3"):
        assert ran.run_dir.path.joinpath("logs", f"{node}.log").read_text()
        assert ran.run_dir.path.joinpath("events", f"{node}.jsonl").read_text()
        assert any(ran.run_dir.path.joinpath("nodes", node, "data").rglob("*.log"))
