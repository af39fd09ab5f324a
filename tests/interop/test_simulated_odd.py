"""Odd requests to simulated nodes of Apache Kafka: it bears, or refuses, all but those known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka.odd.saying import UNANSWERED, everything
from harness.spec import SIM, RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.commands.resident import Resident, resident

pytestmark = pytest.mark.slow
TIMEOUT_S = 120
# what ends a node: docs/findings.md, a request that makes no sense
ENDS = (
    "AddRaftVoter listeners.0.name = empty",
    "UpdateRaftVoter listeners.0.name = empty",
    "BeginQuorumEpoch leader_endpoints.0.name = empty",
    "UpdateRaftVoter voter_id = own",
    "UpdateRaftVoter voter_id = leader",
    "FetchSnapshot replica_id = own",
    "FetchSnapshot replica_id = leader",
    "FetchSnapshot max_bytes = -1",
    "FetchSnapshot max_bytes = least",
    "Vote-next topics.0.partitions.0.replica_id = own",
    "BeginQuorumEpoch-next leader_endpoints = empty",
    "EndQuorumEpoch-next leader_endpoints = empty",
)
# ... and does no more in the newest release
ENDED = ("FetchSnapshot topics = empty", "FetchSnapshot topics.0.partitions = empty")


@pytest.fixture(scope="module")
def played(kafka: KafkaDist) -> Iterator[Resident]:
    """Runs commands that simulate, all in the same process."""
    assert kafka.archive.is_file()
    with resident(TIMEOUT_S) as each:
        yield each


def schedule(folder: Path, release: str, *faults: tuple[str, list[str]]) -> None:
    """Write a run's options, and faults: who is asked, and what."""
    spec = RunSpec(
        1,
        env=SIM,
        system="kafka",
        voters=3,
        observers=0,
        nemeses=("odd-requests",),
        time_limit_s=8.0 * len(faults),
        settings={VERSION: release},
    )
    (folder / "spec.json").write_text(json.dumps(spec.to_json()))
    lines = [
        {
            "id": number,
            "nemesis": "odd-requests",
            "at_ms": 2_000 + 7_000 * number,
            "duration_ms": 500,
            "params": {"target": target, "requests": requests},
            "draw": 0.5,
        }
        for number, (target, requests) in enumerate(faults)
    ]
    (folder / "schedule.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("release", [DEFAULT, pytest.param(KNOWN[-1], marks=pytest.mark.long)])
def test_all_other_odd_requests_end_no_node(played: Resident, release: str, tmp_path: Path) -> None:
    known = ENDS if release == KNOWN[-1] else ENDS + ENDED
    others = [words for words in everything() if words not in known]
    schedule(tmp_path, release, ("leader", others), ("follower", others))
    done = played("repro", tmp_path, "--json", "--store", tmp_path / "store")
    assert done.code == 1, "some answers cannot be written"
    (run,) = {path.parent.resolve() for path in tmp_path.glob("store/*/*/results.json")}
    told = json.loads((run / "results.json").read_bytes())
    assert {anomaly["invariant"] for anomaly in told["anomalies"]} == {"crash"}, told["anomalies"]
    assert not [each for each in told["anomalies"] if "fatal error" in each["message"]]
    unheard = UNANSWERED + r"[^\"]+"
    assert re.findall(unheard, (run / "history.jsonl").read_text()) == []
