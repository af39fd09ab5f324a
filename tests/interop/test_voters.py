"""Voters come and go by Kafka's own tool, whichever kind leads, and a removed leader hands over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.types import ReplicaKey
from node.log.layout import uuid_to_text
from tests.support.kafka.cluster import Quorum
from tests.support.kafka.quorum_files import faults
from tests.support.kafka.quorum_view import await_observer, described, voters
from tests.support.kafka.quorum_writes import remove_voter
from tests.support.kafka.quorums import dynamic_quorum
from tests.support.kafka.tools import KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def growing(kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """One voter of ours, and two controllers that are none: one of Kafka, one of ours."""
    folder = tmp_path_factory.mktemp("growing")
    with dynamic_quorum(kafka, folder, {1: "ours"}, {2: "kafka", 3: "ours"}) as quorum:
        quorum.start_all()
        quorum.await_leader()
        yield quorum


def add(quorum: Quorum, tools: KafkaTools, node_id: int) -> None:
    """Add a voter by Kafka's tool, once it has caught up."""
    await_observer(quorum, node_id)
    tools.add_controller(quorum.addresses, quorum[node_id].config)


def leave_alone(quorum: Quorum, tools: KafkaTools, node_id: int) -> None:
    """Make that node the only voter; so it leads."""
    if node_id not in voters(quorum):
        add(quorum, tools, node_id)
    for other in voters(quorum) - {node_id}:
        remove_voter(quorum, tools, other)
    quorum.await_leader([node_id])


def assert_told(quorum: Quorum, tools: KafkaTools, expected: Iterable[int]) -> None:
    """Kafka's tool and our request tell these voters, and all other nodes as observers."""
    keys = {i: (i, quorum[i].directory_id) for i in quorum.members}
    wanted = {keys[i] for i in expected}
    others = set(keys.values()) - wanted

    def told() -> bool:
        view = described(quorum)
        return {key_text(each.key) for each in view.voters} == wanted and (
            {key_text(each.key) for each in view.observers} == others
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
        i: "Observer" if keys[i] in others else ("Leader" if i == before.leader_id else "Follower")
        for i in keys
    }


def key_text(key: ReplicaKey) -> tuple[int, str]:
    """A key as Kafka's tool tells it."""
    assert key.directory_id is not None
    return key.id, uuid_to_text(key.directory_id)


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

    remove_voter(growing, tools, leader)
    others = {1, 2, 3} - {leader}
    growing.await_leader(others, after_epoch=view.epoch)
    assert_told(growing, tools, others)
    growing.write(str(1_000 + leader))


def test_no_voter_change_was_a_fault_for_anybody(growing: Quorum) -> None:
    assert {m.node_id: faults(m) for m in growing} == {1: [], 2: [], 3: []}
