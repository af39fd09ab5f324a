"""Apache Kafka's controllers join a quorum by themselves, wherever they run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.commands.process import krucible
from tests.support.docker.cluster import need_engine
from tests.support.kafka.told import checked
from tests.support.ssh.hosts import sshd_hosts

pytestmark = [pytest.mark.slow, pytest.mark.long]
SMALL = (
    *("--system", "kafka", "--kafka-version", "4.3.1", "--workload", "producer-ids"),
    *("--set", "krucible.quorum=dynamic", "--set", "controller.quorum.auto.join.enable=true"),
    *("--observers", "0", "--nemesis", "kill", "--time-limit", "10", "--seed", "5"),
)


@pytest.mark.parametrize("env", ["local", pytest.param("docker", marks=pytest.mark.docker), "ssh"])
def test_controllers_that_join_by_themselves_stay_voters_and_judged(
    env: str, kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    with contextlib.ExitStack() as stack:
        options: dict[str, object] = {"env": env}
        if env == "docker":
            need_engine()
        if env == "ssh":
            options["hosts"] = stack.enter_context(sshd_hosts(tmp_path)).file(tmp_path)
        args: list[object] = ["--store", tmp_path / "store", "--json", *SMALL]
        for name, value in options.items():
            args += [f"--{name}", value]
        ran = krucible(tmp_path, "run", *args)
    assert ran.code in (0, 2), ran.explain()
    assert ran.summary["system"] == "valid", ran.explain()
    assert checked(ran)["S27"] >= 2, "two have joined"
    lines = (ran.run_dir.path / "events" / "n1.jsonl").read_text().splitlines()
    sets = [event["set"] for event in map(json.loads, lines) if event["t"] == "voters"]
    assert {len(each) for each in sets} == {1, 2, 3}, sets
