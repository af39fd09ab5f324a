"""Kafka's controllers and ours lead and follow in one quorum whose voters are in the log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, count, pairwise

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.messages import Batch, KRaftVersion, LeaderChange, Voters
from node.core.types import Listener, Voter
from node.log.layout import uuid_to_text
from node.metadata.state import TOPIC
from tests.support.cases import cases
from tests.support.kafka.cluster import KINDS, Member, Quorum
from tests.support.kafka.quorum_files import faults, fold
from tests.support.kafka.quorum_view import await_observer, voters
from tests.support.kafka.quorum_writes import (
    PATIENT,
    create_topic,
    register_broker,
    remove_voter,
)
from tests.support.kafka.quorums import dynamic_quorum
from tests.support.kafka.tools import KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# The two that start first are of one kind: it writes the first records.
MIXES = {
    "two-of-kafka": {1: "kafka", 2: "kafka", 3: "ours"},
    "two-of-ours": {1: "ours", 2: "ours", 3: "kafka"},
}
NUMBERS = count(1_000)


@pytest.fixture(scope="module", params=cases(MIXES, long=["two-of-kafka"]))
def mixed(
    request: pytest.FixtureRequest, kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """A running quorum with two brokers that are registered, and not there."""
    folder = tmp_path_factory.mktemp("dynamic")
    with dynamic_quorum(kafka, folder, request.param, None, **PATIENT) as quorum:
        quorum.start_all([1, 2])
        quorum.await_leader([1, 2])
        for broker_id in (7, 8):
            register_broker(quorum, broker_id)
        quorum.start_all()
        quorum.await_replicated()
        yield quorum


def write(quorum: Quorum) -> str:
    """Have the leader write a topic and a setting; all images have them then."""
    number = next(NUMBERS)
    create_topic(quorum, f"topic-{number}", partitions=3, replication_factor=2)
    quorum.write(str(number))
    return f"topic-{number}"


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_leader_of_either_kind_commits_what_an_admin_writes(mixed: Quorum, kind: str) -> None:
    leader = mixed.make_kind_lead(kind)
    write(mixed)
    assert mixed.await_leader().leader_id == leader, "it was to stay the leader"


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_the_others_go_on_when_one_is_killed_and_it_catches_up(mixed: Quorum, node_id: int) -> None:
    mixed.start_all()
    others = [i for i in mixed.members if i != node_id]
    mixed.await_replicated()
    mixed[node_id].kill()
    mixed.await_leader(others)
    write(mixed)
    mixed[node_id].start()
    write(mixed)
    mixed.await_replicated()


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_leader_of_either_kind_that_stops_hands_over(mixed: Quorum, kind: str) -> None:
    leader = mixed.make_kind_lead(kind)
    epoch = mixed.await_leader().epoch
    mixed[leader].stop()
    view = mixed.await_leader([i for i in mixed.members if i != leader], after_epoch=epoch)
    write(mixed)
    assert view.leader_id != leader


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_leader_of_either_kind_removes_voters_of_both_and_adds_them_again(
    mixed: Quorum, tools: KafkaTools, kind: str
) -> None:
    leader = mixed.make_kind_lead(kind)
    mixed.start_all()
    mixed.await_replicated()
    for node_id in mixed.members.keys() - {leader}:
        remove_voter(mixed, tools, node_id)
        write(mixed)
        await_observer(mixed, node_id)
        tools.add_controller(mixed.addresses, mixed[node_id].config)
        write(mixed)
    assert voters(mixed) == set(mixed.members)
    assert mixed.await_leader().leader_id == leader, "it was to stay the leader"


def test_logs_images_and_voters_agree_and_nobody_has_found_a_fault(mixed: Quorum) -> None:
    mixed.start_all()
    topic = write(mixed)
    committed = mixed.await_replicated()
    for member in mixed.live:
        member.stop()
    logs = [committed_batches(member, committed) for member in mixed]
    for one, other in combinations(logs, 2):
        assert [b.base_offset for b in one] == [b.base_offset for b in other]
        assert [b.data for b in one] == [b.data for b in other]
    assert_epochs_begin_rightly(mixed, logs[0])

    images = [fold(member, logs[0][-1].last_offset + 1) for member in mixed]
    assert len({image.digest for image in images}) == 1
    image = images[0]
    assert len(image.topics[topic].partitions) == 3
    assert image.config((TOPIC, topic)) == {"retention.ms": "7654321"}
    assert {
        i: [(x.name, x.host, x.port) for x in c.listeners] for i, c in image.controllers.items()
    } == {m.node_id: [("CONTROLLER", m.endpoint.host, m.endpoint.port)] for m in mixed}
    assert {m.node_id: faults(m) for m in mixed} == {1: [], 2: [], 3: []}


def committed_batches(member: Member, committed: int) -> list[Batch]:
    """All batches up to the one with the record at ``committed``, inclusive."""
    log = [b for b in member.batches() if b.base_offset <= committed]
    assert log[0].base_offset == 0
    assert all(a.last_offset + 1 == b.base_offset for a, b in pairwise(log))
    assert log[-1].last_offset >= committed
    return log


def assert_epochs_begin_rightly(quorum: Quorum, log: list[Batch]) -> None:
    """Each epoch with a control batch of its leader; the very first one brings the voters."""
    starts = [log[0], *(b for a, b in pairwise(log) if a.epoch < b.epoch)]
    first, *later = [batch.controls for batch in starts]
    changes = [controls[0] for controls in (first, *later)]
    leaders = {change.leader_id for change in changes if isinstance(change, LeaderChange)}
    assert {kind for kind in KINDS if leaders & set(quorum.of_kind(kind))} == set(KINDS)
    assert [type(control) for control in first] == [LeaderChange, KRaftVersion, Voters]
    assert {tuple(map(type, controls)) for controls in later} == {(LeaderChange,)}
    assert isinstance(first[2], Voters)
    assert first[1] == KRaftVersion(1)
    assert {i: where(voter) for i, voter in first[2].voters.voters.items()} == {
        i: (m.directory_id, (Listener("CONTROLLER", m.endpoint),))
        for i, m in quorum.members.items()
    }


def where(voter: Voter) -> tuple[str, tuple[Listener, ...]]:
    """Directory and listeners of a voter."""
    assert voter.key.directory_id is not None
    return uuid_to_text(voter.key.directory_id), voter.listeners
