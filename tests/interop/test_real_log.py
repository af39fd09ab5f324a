"""Apache Kafka's own log, in real folders, below simulated nodes: faults, replays, nothing left.

Each simulation runs in a process of its own: a JVM cannot be started twice in one, nor forked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN
from harness.systems.kafka.simulated.folders import LOG
from tests.interop.test_simulated import results
from tests.interop.test_simulated_releases import fetched

pytestmark = pytest.mark.slow

TIMEOUT_S = 300
OWN = "[LogLoader partition=__cluster_metadata-0, dir=/data]"  # nobody but Kafka's log says that
OFTEN = "metadata.log.max.record.bytes.between.snapshots=2000"


def simulate(folder: Path, *options: object) -> dict[int, dict[str, Any]]:
    """The results of a brief run, by seed; its temporary files are gone when it is over."""
    temporary, store = folder / "temporary", folder / "store"
    temporary.mkdir(parents=True)
    argv = [sys.executable, "-m", "krucible", "sim", "--system", "kafka", "--set", f"{LOG}=real"]
    argv += ["--voters", "3", "--jobs", "1", "--save", "--store", str(store), *map(str, options)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stdout[-2000:]
    assert [path.name for path in temporary.iterdir()] == []
    return results(store)


def logs(folder: Path) -> dict[str, str]:
    """Read the lines that each node printed in a store's only run, sorted.

    Kafka's raft client goes through its listeners by their identity hash codes.
    """
    return {
        path.name: "\n".join(sorted(path.read_text().splitlines()))
        for path in folder.glob("store/*/2*/logs/*.log")
    }


@pytest.mark.parametrize(
    ("version", "workload"),
    [
        (DEFAULT, "register"),
        pytest.param(DEFAULT, "producer-ids", marks=pytest.mark.long),
        pytest.param(KNOWN[-1], "register", marks=pytest.mark.long),
        pytest.param(KNOWN[-1], "producer-ids", marks=pytest.mark.long),
    ],
)
def test_kafkas_own_log_is_valid_under_kills_and_cuts_and_replays(
    version: str, workload: str, kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    fetched(version)
    options = f"--kafka-version {version} --workload {workload} --observers 1 --seed 1"
    brief = f"--time-limit 6 --nemesis kill,partition --set {OFTEN}"
    folders = [tmp_path / name for name in ("once", "again")]
    with ThreadPoolExecutor(2) as pool:
        once, again = pool.map(
            lambda folder: simulate(folder, *options.split(), *brief.split())[1], folders
        )
    assert once["system"] == "valid", once["anomalies"]
    assert once["trace_sha256"] == again["trace_sha256"]
    said, also = map(logs, folders)
    assert said == also
    assert len(said) == 4
    assert all(OWN in log for log in said.values()), "it is Kafka's own log"
    assert not [name for name, log in said.items() if str(tmp_path) in log]
    told: Counter[str] = Counter()
    for path in tmp_path.glob("once/store/*/2*/events/*.jsonl"):
        told.update(json.loads(line)["t"] for line in path.read_bytes().splitlines())
    assert told["start"] > 4, "a killed node has opened its folder again"
    assert min(told[each] for each in ("append", "flush", "hwm", "snap", "qs")) > 0, told
    checked: Counter[str] = Counter()
    for each in once["results"]:
        checked.update(each.get("checked", {}))
    wanted = "S3 S4 S7 S8 S9 S10 S13 S16 S22 S25"
    assert not [name for name in wanted.split() if not checked[name]], checked


@pytest.mark.long
def test_many_seeds_share_a_process(kafka: KafkaDist, tmp_path: Path) -> None:
    """In one JVM with each other, in another order: they are as they are alone."""
    assert kafka.archive.is_file()
    swarm = "--observers 0 --time-limit 3 --go-on --weather fair --seeds"
    many = simulate(tmp_path / "many", *swarm.split(), "1..8")
    assert len({told["trace_sha256"] for told in many.values()}) == 8
    assert not [told["anomalies"] for told in many.values() if told["system"] != "valid"]
    alone = simulate(tmp_path / "alone", *swarm.split(), "5..5")
    assert alone[5]["trace_sha256"] == many[5]["trace_sha256"]


def test_kafka_tells_why_it_deletes_a_snapshot(kafka: KafkaDist, tmp_path: Path) -> None:
    """It looks once a minute; S23 goes by sizes and ages that are not Kafka's own word."""
    assert kafka.archive.is_file()
    fetched(DEFAULT)
    brief = "--seed 1 --observers 0 --workload register --rate 20 --time-limit 65 --nemesis none"
    limits = f"--set {OFTEN} --set metadata.max.retention.bytes=8000"
    once = simulate(tmp_path, *brief.split(), *limits.split())[1]
    assert once["system"] == "valid", once["anomalies"]
    gone = [
        event
        for path in tmp_path.glob("store/*/2*/events/*.jsonl")
        for event in map(json.loads, path.read_bytes().splitlines())
        if event["t"] == "snap" and event["op"] == "delete"
    ]
    assert {event["node"] for event in gone} == {1, 2, 3}
    assert all(event["held"] > 8000 for event in gone)
