"""``--system kafka``: chaos on Apache Kafka's own controllers, judged from outside and inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.envs.links.tcp_probe import REQUEST
from harness.systems.kafka.distribution import KafkaDist
from tests.support.commands.command import Ended, krucible

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ended(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """A run under cuts and kills, and where it lies."""
    assert kafka.archive.is_file()
    store = tmp_path_factory.mktemp("store")
    options = "--system kafka --workload producer-ids --observers 0 --seed 5 --rate 50"
    faults = "--nemesis kill,partition-isolate-leader --time-limit 12"
    done = krucible("run", *options.split(), *faults.split(), "--store", store, "--json")
    return done, (store / "latest").resolve()


def results(run: Path) -> dict[str, dict[str, object]]:
    told = json.loads((run / "results.json").read_bytes())
    return {each["checker"]: each for each in told["results"]}


def test_a_healthy_kafka_is_valid(ended: tuple[Ended, Path]) -> None:
    done, run = ended
    assert done.code == 0, done.out + done.err
    judged = results(run)
    assert all(each["valid"] == "valid" for each in judged.values())
    from_inside = "S4 S7 S8 S9 S12 S13 S15 S16 S17 S19 S20 S26 S28 S29 S30 S31 L4"
    for checker, invariants in (("producer-ids", "C1 C11 S34"), ("consensus", from_inside)):
        checked = judged[checker]["checked"]
        assert isinstance(checked, dict)
        assert all(checked[name] > 5 for name in invariants.split()), checked
    once = "S1 S2 S3 S5 S6 S10 S11 S14 S21 S25 S32"
    checked = judged["consensus"]["checked"]
    assert isinstance(checked, dict)
    assert all(checked[name] for name in once.split()), checked


def test_the_agent_tells_of_each_process_and_its_role(ended: tuple[Ended, Path]) -> None:
    _, run = ended
    roles = set()
    for node in ("n1", "n2", "n3"):
        lines = (run / "events" / f"{node}.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        lives = {event["inc"] for event in events if "inc" in event}
        starts = [event for event in events if event["t"] == "start"]
        assert {event["inc"] for event in starts} == lives
        assert all(event["missing"] == [] for event in events if event["t"] == "agent")
        roles |= {event["to"] for event in events if event["t"] == "role"}
    assert {"unattached", "candidate", "leader", "follower"} <= roles
    assert "highest epoch" in (run / "report.html").read_text()  # of the reigns on its lanes


def test_the_relay_knows_who_connects(ended: tuple[Ended, Path]) -> None:
    """Kafka binds no source address: its links are cut because its sockets are recognised."""
    _, run = ended
    ops = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    cuts = [op for op in ops if op["f"] == "inject" and "partition" in str(op)]
    installed = [op for op in cuts if op["value"].get("outcome") == "installed"]
    assert installed
    # What waited on the cut links is more than the probes of the harness: Kafka's own requests.
    healed = [
        op["value"]["evidence"] for op in ops if op["f"] == "heal" and "held_bytes" in str(op)
    ]
    ours = len(REQUEST) * sum(evidence["healed_links"] for evidence in healed)
    assert sum(evidence["held_bytes"] for evidence in healed) > ours


def test_a_log_that_was_changed_behind_its_back_is_invalid(ended: tuple[Ended, Path]) -> None:
    _, run = ended
    file = run / "records" / "n2.jsonl"
    before = file.read_text()
    lines = before.splitlines(keepends=True)
    at = len(lines) // 2
    batch = json.loads(lines[at])
    file.write_text(
        "".join([*lines[:at], json.dumps({**batch, "crc": 1}) + "\n", *lines[at + 1 :]])
    )
    try:
        again = krucible("check", run)
    finally:
        file.write_text(before)
    assert again.code == 1
    assert "(crc 00000001)" in again.out


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.9.2", "4.0.2", "4.2.1", "4.3.1", "4.4.0"])
def test_another_release_is_valid(version: str, kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    options = "--system kafka --workload producer-ids --observers 0 --seed 3 --nemesis kill"
    brief = ("--time-limit", 25, "--kafka-version", version, "--store", tmp_path)
    done = krucible("run", *options.split(), *brief)
    assert done.code == 0, done.out + done.err
    run = (tmp_path / "latest").resolve()
    assert json.loads((run / "results.json").read_bytes())["versions"]["kafka"] == version
    consensus = results(run)["consensus"]
    assert consensus["valid"] == "valid"
    assert "undecided" not in str(consensus["stats"])  # each hook took hold
    assert "did not take hold" not in (run / "logs" / "n1.log").read_text()
    settings = json.loads((run / "spec.json").read_bytes())["settings"]
    assert settings["krucible.kafka.version"] == version
