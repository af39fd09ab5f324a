"""Kafka's controllers and ours in one quorum whose voters are in the log (kraft.version 1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.kafka.cluster import Quorum
from tests.support.kafka.quorum_writes import remove_voter
from tests.support.kafka.quorums import dynamic_quorum
from tests.support.kafka.tools import KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FIRST = {1: "kafka", 2: "ours", 3: "kafka"}
JOINING = {4: "ours", 5: "kafka"}
VALUES = map(str, count(1_000))


@pytest.fixture(scope="module")
def mixed(kafka: KafkaDist, folder: Path) -> Iterator[Quorum]:
    """Three voters, and two controllers that wait to be voters; all take snapshots often."""
    often = {"metadata_log_max_record_bytes_between_snapshots": "3000"}
    with dynamic_quorum(kafka, folder, FIRST, JOINING, **often) as quorum:
        for node_id in FIRST:
            quorum[node_id].start()
        quorum.await_leader()
        yield quorum


def voters(quorum: Quorum, tools: KafkaTools) -> dict[int, str]:
    """Directory ids of the voters, by node id, as Kafka's tool tells them."""
    told: list[dict[str, Any]] = json.loads(tools.quorum_status(quorum.addresses)["CurrentVoters"])
    return {voter["id"]: voter["directoryId"] for voter in told}


def test_the_voters_are_those_that_all_were_formatted_with(
    mixed: Quorum, tools: KafkaTools
) -> None:
    assert voters(mixed, tools) == {i: mixed[i].directory_id for i in FIRST}


@pytest.mark.parametrize("joining", JOINING)
@pytest.mark.parametrize("leading", ["kafka", "ours"])  # the leader changes once
def test_a_controller_is_added_and_removed(
    mixed: Quorum, tools: KafkaTools, leading: str, joining: int
) -> None:
    leader = 1 if leading == "kafka" else 2
    mixed.make_leader(leader, of=FIRST)
    if not mixed[joining].alive:
        mixed[joining].start()
    mixed.wait_for(
        lambda: (view := mixed.leader()) and joining in view.observers, f"{joining} observes"
    )
    mixed.write(next(VALUES))
    tools.add_controller(mixed.addresses, mixed[joining].config)
    assert voters(mixed, tools) == {i: mixed[i].directory_id for i in (*FIRST, joining)}
    mixed.write(next(VALUES))
    remove_voter(mixed, tools, joining)
    assert voters(mixed, tools) == {i: mixed[i].directory_id for i in FIRST}
    mixed[joining].kill()


@pytest.mark.parametrize("node_id", [1, 2])
def test_kafkas_shell_reads_the_snapshots_of_either_kind(
    mixed: Quorum, tools: KafkaTools, node_id: int
) -> None:
    def snapshot() -> list[Path]:
        mixed.write(next(VALUES))
        return mixed[node_id].snapshots

    newest = mixed.wait_for(snapshot, f"{node_id} takes a snapshot")[-1]
    with tools.shell(newest) as ask:
        assert "configs" in ask("ls /image").split()
        assert "4.1-IV1" in ask("cat /image/features/metadataVersion")
