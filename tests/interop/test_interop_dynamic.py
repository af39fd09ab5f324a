"""Kafka's controllers and ours in one quorum whose voters are in the log (kraft.version 1)."""

from __future__ import annotations

import json
import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import Quorum
from kafka_dist import KafkaDist
from kafka_quorums import dynamic_quorum
from kafka_tools import KafkaTools
from kafka_tools import KafkaTools

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


@pytest.mark.parametrize("leading", ["kafka", "ours"])
@pytest.mark.parametrize("joining", JOINING)
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
    tools.remove_controller(mixed.addresses, joining, mixed[joining].directory_id)
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
    assert "configs" in tools.shell(newest, "ls", "/image").split()
    assert "4.1-IV1" in tools.shell(newest, "cat", "/image/features/metadataVersion")


# --------------------------------------------------------------------------- changing the voters

# Kafka's tool reads of a controller that is added what Kafka would.
READ_BY_TOOL = {
    "controller_listener_names": "CONTROLLER",
    "listener_security_protocol_map": "CONTROLLER:PLAINTEXT",
}


@pytest.fixture(scope="module")
def growing(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """One voter of ours, and two controllers that are none: one of Kafka, one of ours."""
    folder = tmp_path_factory.mktemp("growing")
    joining = {2: "kafka", 3: "ours"}
    with dynamic_quorum(kafka, folder, {1: "ours"}, joining, **READ_BY_TOOL) as quorum:
        quorum.start_all()
        quorum.await_leader()
        yield quorum


def voters(quorum: Quorum) -> set[int]:
    """The voters, as the leader tells."""
    view = describe_quorum(quorum[quorum.await_leader().leader_id].endpoint)
    return set() if view is None else {voter.key.id for voter in view.voters}


def add(quorum: Quorum, tools: KafkaTools, node_id: int) -> None:
    """Add a voter by Kafka's tool, once it has caught up."""
    quorum.wait_for(lambda: has_caught_up(quorum, node_id), f"{node_id} has caught up")
    tools.add_controller(quorum.addresses, quorum[node_id].config)


def has_caught_up(quorum: Quorum, node_id: int) -> bool:
    view = describe_quorum(quorum[quorum.await_leader().leader_id].endpoint)
    return view is not None and any(
        each.key.id == node_id and (each.log_end_offset or 0) >= (view.high_watermark or 0) > 0
        for each in view.observers
    )


def remove(quorum: Quorum, tools: KafkaTools, node_id: int) -> None:
    """Remove a voter by Kafka's tool."""
    tools.remove_controller(quorum.addresses, node_id, quorum[node_id].directory_id)


def leave_alone(quorum: Quorum, tools: KafkaTools, node_id: int) -> None:
    """Make that node the only voter; so it leads."""
    if node_id not in voters(quorum):
        add(quorum, tools, node_id)
    for other in voters(quorum) - {node_id}:
        remove(quorum, tools, other)
        quorum.wait_for(lambda gone=other: gone not in voters(quorum), f"{other} is no voter")
    quorum.await_leader([node_id])


def assert_told(quorum: Quorum, tools: KafkaTools, expected: Iterable[int]) -> None:
    """Kafka's tool and our request tell these voters, and all other nodes as observers."""
    keys = {i: (i, quorum[i].directory_id) for i in quorum.members}
    wanted = {keys[i] for i in expected}
    others = set(keys.values()) - wanted

    def told() -> bool:
        view = describe_quorum(quorum[quorum.await_leader().leader_id].endpoint)
        if view is None:
            return False
        observers = {(x.key.id, uuid_to_text(x.key.directory_id)) for x in view.observers}
        return {(x.key.id, uuid_to_text(x.key.directory_id)) for x in view.voters} == wanted and (
            observers == others
        )

    quorum.wait_for(told, f"voters {wanted}, observers {others}")
    before = quorum.await_leader()
    status = tools.quorum_status(quorum.addresses)
    assert (int(status["LeaderId"]), int(status["LeaderEpoch"])) == (before.leader_id, before.epoch)
    current = json.loads(status["CurrentVoters"])
    assert {(x["id"], x["directoryId"]) for x in current} == wanted
    assert {(x["id"], x["directoryId"]) for x in json.loads(status["CurrentObservers"])} == others
    assert {x["id"]: x["endpoints"] for x in current} == {
        i: [f"CONTROLLER://{quorum[i].endpoint.host}:{quorum[i].endpoint.port}"] for i, _ in wanted
    }
    rows = {int(row["NodeId"]): row for row in tools.quorum_replication(quorum.addresses)}
    assert {(i, row["DirectoryId"]) for i, row in rows.items()} == wanted | others
    assert {i: row["Status"] for i, row in rows.items()} == {
        i: "Observer"
        if keys[i] in others
        else ("Leader" if i == before.leader_id else "Follower")
        for i in keys
    }


@pytest.mark.parametrize("leader", [1, 2], ids=["ours", "kafka"])
def test_a_leader_of_either_kind_adds_voters_of_both_and_hands_over_when_it_is_removed(
    growing: Quorum, tools: KafkaTools, leader: int
) -> None:
    leave_alone(growing, tools, leader)
    assert_told(growing, tools, [leader])
    for node_id in {1, 2, 3} - {leader}:
        add(growing, tools, node_id)
        assert node_id in voters(growing)
    view = growing.await_leader()
    assert view.leader_id == leader, "it was to stay the leader"
    assert_told(growing, tools, [1, 2, 3])

    remove(growing, tools, leader)
    others = {1, 2, 3} - {leader}
    growing.await_leader(others, after_epoch=view.epoch)
    assert_told(growing, tools, others)
    growing.write(str(next(NUMBERS)))


def test_no_voter_change_was_a_fault_for_anybody(growing: Quorum) -> None:
    assert {m.node_id: faults(m) for m in growing} == {1: [], 2: [], 3: []}
