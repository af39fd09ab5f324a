"""Apache Kafka in containers: the same faults, the same events, the same judgement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.commands.process import Ran, journals, run
from tests.support.docker.cluster import left_of, need_engine

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SMALL = {"env": "docker", "system": "kafka", "workload": "producer-ids", "observers": 0, "rate": 50}


@pytest.fixture(autouse=True)
def _engine(kafka: KafkaDist) -> None:
    assert kafka.archive.is_file()
    need_engine()


def checked(ran: Ran) -> dict[str, int]:
    """How often each invariant of the events was decided."""
    told = json.loads((ran.run_dir.path / "results.json").read_bytes())
    (found,) = (each["checked"] for each in told["results"] if each["checker"] == "consensus")
    return dict(found)


def roles(ran: Ran) -> set[str]:
    """What the agents in the JVMs say that their nodes were."""
    files = (ran.run_dir.path / "events").glob("*.jsonl")
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert all(event["missing"] == [] for event in events if event["t"] == "agent")
    return {event["to"] for event in events if event["t"] == "role"}


def test_kafka_in_containers_is_valid_under_kills_cuts_and_slow_links(tmp_path: Path) -> None:
    faults = "kill,partition-isolate-leader,slow-links"
    ran = run(tmp_path, **SMALL, nemesis=faults, time_limit=9, seed=5)
    assert ran.code in (0, 2), ran.explain()  # 2: too short for each to be installed
    assert (ran.summary["system"], ran.summary["harness_error"]) == ("valid", None), ran.explain()
    injected = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in injected if value["outcome"] == "installed"]
    assert len(installed) >= 2, injected
    assert all(value["evidence"] for value in installed)
    assert [value for value in injected if value["outcome"] == "failed"] == []
    decided = checked(ran)
    assert all(decided[name] for name in ("S1", "S2", "S3", "S6", "S7", "S9", "S17", "S25", "L4"))
    assert {"candidate", "leader", "follower"} <= roles(ran)
    assert "highest epoch" in (ran.run_dir.path / "report.html").read_text()
    assert left_of(tmp_path / "state") == []
    assert journals(tmp_path / "state") == []
