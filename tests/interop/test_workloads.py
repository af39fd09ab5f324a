"""Workloads on Apache Kafka whose reads one node answers from its own image: S34, C8 and L8."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import KNOWN
from tests.support.commands.command import Ended, krucible

pytestmark = pytest.mark.slow

Line = dict[str, Any]


def played(workload: str, store: Path, *options: object) -> tuple[Ended, Path]:
    """A run of Kafka under kills and cuts, and where it lies."""
    told = ("--system", "kafka", "--workload", workload, "--rate", 60, "--store", store)
    faults = ("--nemesis", "kill,partition-isolate-leader", "--seed", 5)
    done = krucible("run", *told, *faults, *options)
    return done, (store / "latest").resolve()


@pytest.fixture(scope="module")
def ended(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """Registers, written at the controllers and read at each of them and at a broker."""
    assert kafka.archive.is_file()
    store = tmp_path_factory.mktemp("store")
    return played("register", store, "--observers", 1, "--time-limit", 8)


def judged(run: Path) -> dict[str, Line]:
    told = json.loads((run / "results.json").read_bytes())
    return {each["checker"]: each for each in told["results"]}


def test_reads_of_each_node_are_valid(ended: tuple[Ended, Path]) -> None:
    done, run = ended
    assert done.code == 0, done.out + done.err
    results = judged(run)
    assert all(each["valid"] == "valid" for each in results.values())
    assert results["reads"]["checked"]["C8"] > 20
    assert results["reads"]["checked"]["L8"] > 5
    assert results["reads"]["checked"]["S34"] > 5
    assert results["consensus"]["checked"]["S17"] > 5
    inside = results["observers"]["checked"]  # images of controllers and the broker, and memories
    assert min(inside[name] for name in ("C8", "C9", "C10", "C16")) > 10
    ops = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert {op["f"] for op in ops if op["process"] != "nemesis"} == {"write", "local-read"}
    reads = [op for op in ops if op["f"] == "local-read" and op["type"] == "ok"]
    assert {op["node"] for op in reads} == {"n1", "n2", "n3", "n4"}


def last_read(ops: list[Line]) -> Line:
    """The completion of the last read, after the recovery."""
    return next(op for op in reversed(ops) if op["f"] == "local-read" and op["type"] == "ok")


def stale(ops: list[Line]) -> None:
    """The last read shows the first value that was read there.

    Not the first that was written: if another is committed with it at once, nobody ever sees it.
    """
    last = last_read(ops)
    reads = (op for op in ops if op["f"] == "local-read" and op["type"] == "ok")
    of_key = (op["value"] for op in reads if op["key"] == last["key"])
    last["value"] = next(value for value in of_key if value not in (None, last["value"]))


def rolled_back(ops: list[Line]) -> None:
    """The last read shows that nothing was ever written there."""
    last_read(ops)["value"] = None


def invented(ops: list[Line]) -> None:
    last_read(ops)["value"] = 7_000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (stale, "committed when the system recovered|went back to"),
        (rolled_back, "committed when the system recovered|went back to"),
        (invented, "which nobody ever wrote"),
    ],
)
def test_a_changed_read_is_invalid(
    change: Callable[[list[Line]], None], told: str, ended: tuple[Ended, Path]
) -> None:
    _, run = ended
    file = run / "history.jsonl"
    before = file.read_text()
    ops = [json.loads(line) for line in before.splitlines()]
    change(ops)
    file.write_text("".join(json.dumps(op) + "\n" for op in ops))
    try:
        again = krucible("check", run)
    finally:
        file.write_text(before)
    assert again.code == 1
    assert any(each in again.out for each in told.split("|")), again.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "brokers"),
    [
        ("register", 0),  # the harness plays the broker that takes the topics
        ("list-append", 0),
        ("membership", 0),
        ("topics", 2),
        ("list-append", 2),
        ("observers", 2),
    ],
)
def test_it_is_served(workload: str, brokers: int, kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    done, run = played(workload, tmp_path, "--observers", brokers, "--time-limit", 30)
    assert done.code == 0, done.out + done.err
    assert judged(run)["reads"]["checked"]["C8"] > 20


@pytest.mark.long
def test_brokers_tell_of_topics_as_they_were_committed(kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    done, run = played("views", tmp_path, "--observers", 2, "--time-limit", 30)
    assert done.code in (0, 1), done.out + done.err  # administrators may meet a known finding
    found = judged(run)
    assert found["reads"]["checked"]["C8"] > 200
    assert found["reads"]["anomalies"] == []
    assert all("finding" in each["details"] for each in found["observers"]["anomalies"])


@pytest.mark.parametrize(
    "workload",
    [
        "levels",
        *(pytest.param(w, marks=pytest.mark.long) for w in ("admin", "cordons", "directories")),
        pytest.param("security", marks=pytest.mark.long),
    ],
)
def test_changes_that_only_images_show_are_judged_by_these(
    workload: str, kafka: KafkaDist, tmp_path: Path
) -> None:
    """Clients play brokers, at a rate at which these are mostly there, or read nothing at all."""
    assert kafka.archive.is_file()
    told = ("--system", "kafka", "--kafka-version", KNOWN[-1], "--workload", workload)
    brief = ("--voters", 1, "--observers", 1, "--nemesis", "none", "--time-limit", 10)
    done = krucible("run", *told, *brief, "--seed", 5, "--store", tmp_path)
    assert done.code in (0, 1, 2), (
        done.out + done.err
    )  # known findings and coverage are not the point
    observers = judged((tmp_path / "latest").resolve())["observers"]
    assert all("finding" in each["details"] for each in observers["anomalies"])
    assert min(observers["checked"][name] for name in ("C8", "C9", "C10")) >= 5
    spec = json.loads((tmp_path / "latest" / "spec.json").read_bytes())
    assert spec["rate_hz"] == (100 if workload == "security" else 15)


@pytest.mark.long
def test_the_quorum_is_described_as_it_is(kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    done, run = played("describe", tmp_path, "--observers", 0, "--time-limit", 30)
    assert done.code == 0, done.out + done.err
    assert judged(run)["describe"]["checked"]["S34"] > 20
