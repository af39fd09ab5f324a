"""Apache Kafka from inside: its agent's events are judged, and what goes wrong there is caught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.systems.kafka.agent import WRONGS
from harness.systems.kafka.distribution import KafkaDist
from harness.verdict import EXIT_HARNESS, EXIT_INVALID
from tests.support.commands.command import Ended, krucible

pytestmark = pytest.mark.slow
BRIEF = "--system kafka --workload producer-ids --observers 0 --seed 5 --rate 50 --time-limit 3"
# A voter's vote takes others; all else a single controller can do wrong. Which invariant sees it.
CAUGHT = {
    "vote-twice": (3, "S2"),
    "early-acknowledgement": (1, "S17"),
    "deep-truncation": (1, "S10"),
    "falling-high-watermark": (1, "S15"),
    "early-snapshot": (1, "S22"),
    "forgotten-setting": (1, "C8"),
    "forgotten-in-memory": (1, "C16"),
    "needless-refusal": (1, "C17"),
}
# By settings of topics it is seen, and by ISRs.
SEEN_BY = {
    "forgotten-setting": ("--workload", "register"),
    "forgotten-in-memory": ("--workload", "register"),
    "needless-refusal": ("--workload", "isr", "--observers", 1),
}


def played(store: Path, voters: int, *options: object) -> tuple[Ended, dict[str, dict[str, Any]]]:
    """Run without faults; the results of all checkers."""
    some = ("--voters", voters, "--nemesis", "none", "--store", store, *options)
    done = krucible("run", *BRIEF.split(), *some)
    told = json.loads((store / "latest" / "results.json").read_bytes())
    return done, {each["checker"]: each for each in told["results"]}


def test_all_that_it_can_do_wrong_is_caught_by_some_invariant() -> None:
    assert set(CAUGHT) == set(WRONGS)


@pytest.mark.parametrize(
    "wrong",
    [
        "vote-twice",
        "deep-truncation",
        "forgotten-setting",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in CAUGHT
            if each not in ("vote-twice", "deep-truncation", "forgotten-setting")
        ),
    ],
)
def test_what_kafka_is_made_to_do_wrong_is_caught(
    wrong: str, kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    voters, invariant = CAUGHT[wrong]
    asked = ("--set", f"krucible.agent.force={wrong}", *SEEN_BY.get(wrong, ()))
    done, results = played(tmp_path, voters, *asked)
    # Two leaders of an epoch end whoever hears of both; if that is at its start, nothing begins.
    assert done.code in (EXIT_INVALID, EXIT_HARNESS), done.out + done.err
    found = results["observers" if invariant[0] == "C" else "consensus"]["anomalies"]
    assert invariant in {each["invariant"] for each in found}


def test_a_hook_that_does_not_take_hold_leaves_its_invariants_undecided(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    hook = "FileQuorumStateStore.writeElectionState"
    done, results = played(tmp_path, 1, "--set", f"krucible.agent.without={hook}")
    assert done.code == 2, done.out + done.err
    told = results["consensus"]
    assert {"S2", "S3", "S4"} <= set(told["stats"]["undecided"])
    assert "n1 does not tell of qs" in done.out
    assert f"the hook {hook} did not take hold" in (tmp_path / "latest/logs/n1.log").read_text()
    assert told["checked"]["S7"] > 5
    assert not told["anomalies"]


@pytest.mark.long
def test_a_broker_that_starts_claims_no_record_to_be_on_its_disk(tmp_path: Path) -> None:
    """It flushes none while it runs; what a torn tail takes from it then is no loss (S10, S25)."""
    options = ("--observers", 1, "--nemesis", "kill", "--pace", "dense", "--time-limit", 25)
    played(tmp_path, 1, *options)
    starts = {"n1": list[dict[str, Any]](), "n2": list[dict[str, Any]]()}
    for node, found in starts.items():
        lines = (tmp_path / "latest" / "events" / f"{node}.jsonl").read_text().splitlines()
        found += [event for event in map(json.loads, lines) if event["t"] == "start"]
    assert max(start["leo"] for of in starts.values() for start in of) > 0
    assert all(start["flushed"] == start["leo"] for start in starts["n1"])
    assert all(start["flushed"] == start["log_start"] for start in starts["n2"])


def test_without_the_agent_logs_and_answers_are_judged(kafka: KafkaDist, tmp_path: Path) -> None:
    assert kafka.archive.is_file()
    done, results = played(tmp_path, 1, "--set", "krucible.agent=false")
    assert done.code == 0, done.out + done.err
    assert "consensus" not in results
    assert results["logs"]["checked"]["S4"] > 5
    assert not (tmp_path / "latest" / "events").exists() or not any(
        (tmp_path / "latest" / "events").iterdir()
    )
