"""Kafka's controllers and ours in one quorum with static voters (kraft.version 0)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, count, pairwise

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.cases import cases
from tests.support.kafka.cluster import Quorum
from tests.support.kafka.quorum_files import faults
from tests.support.kafka.quorums import static_quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# The kind of the first leader: it writes the first records.
MIXES = {
    "two-of-kafka": ({1: "kafka", 2: "kafka", 3: "ours"}, "kafka"),
    "two-of-ours": ({1: "kafka", 2: "ours", 3: "ours"}, "kafka"),
    "two-of-kafka-led-by-ours": ({1: "kafka", 2: "kafka", 3: "ours"}, "ours"),
}
ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
PATIENT_MS = "20000"
VALUES = map(str, count(1_000))


@pytest.fixture(scope="module", params=cases(MIXES, long=["two-of-ours"]))
def mixed(
    request: pytest.FixtureRequest, kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """A running quorum that has had a leader of one kind only."""
    kinds, first = request.param
    with static_quorum(kafka, tmp_path_factory.mktemp("mixed"), kinds) as quorum:
        start_led_by(quorum, first)
        yield quorum


def start_led_by(quorum: Quorum, kind: str) -> None:
    """Have one of that kind lead first: the others do not stand for election by themselves."""
    leading = quorum.of_kind(kind)
    others = [quorum[i] for i in quorum.members if i not in leading]
    usual = {m.node_id: m.properties[ELECTION_TIMEOUT] for m in others}
    for member in others:
        member.properties[ELECTION_TIMEOUT] = PATIENT_MS
        member.configure()
    quorum.start_all()
    quorum.await_leader(leading)
    quorum.write(next(VALUES))
    for member in others:
        member.stop()
        member.properties[ELECTION_TIMEOUT] = usual[member.node_id]
        member.configure()
        member.start()
        quorum.write(next(VALUES))
    view = quorum.await_leader()
    assert view.leader_id in leading


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_leader_of_either_kind_commits_writes_that_all_images_hold(
    mixed: Quorum, kind: str
) -> None:
    leader = mixed.make_kind_lead(kind)
    mixed.write(next(VALUES))
    assert mixed.await_leader().leader_id == leader, "it was to stay the leader"


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_the_others_go_on_when_one_is_killed_and_it_catches_up(mixed: Quorum, node_id: int) -> None:
    mixed.start_all()
    others = [i for i in mixed.members if i != node_id]
    mixed.await_replicated()
    mixed[node_id].kill()
    mixed.await_leader(others)
    mixed.write(next(VALUES))
    mixed[node_id].start()
    mixed.write(next(VALUES))
    mixed.await_replicated()


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_leader_of_either_kind_that_stops_hands_over(mixed: Quorum, kind: str) -> None:
    leader = mixed.make_kind_lead(kind)
    epoch = mixed.await_leader().epoch
    mixed[leader].stop()
    view = mixed.await_leader([i for i in mixed.members if i != leader], after_epoch=epoch)
    mixed.write(next(VALUES))
    assert view.leader_id != leader


def test_the_logs_agree_batch_by_batch(mixed: Quorum) -> None:
    mixed.start_all()
    mixed.write(next(VALUES))
    committed = mixed.await_replicated()
    for member in mixed.live:
        member.stop()
    assert {m.node_id: faults(m) for m in mixed} == {1: [], 2: [], 3: []}
    logs = {i: member.batches() for i, member in mixed.members.items()}
    for log in logs.values():
        assert all(a.last_offset + 1 == b.base_offset for a, b in pairwise(log))
        assert log[-1].last_offset >= committed
    for one, other in combinations(logs.values(), 2):
        same = {b.base_offset: b for b in other}
        for batch in one:
            if batch.base_offset <= committed or same.get(batch.base_offset, batch).epoch == (
                batch.epoch
            ):
                assert same.get(batch.base_offset, batch).data == batch.data
        assert {b.base_offset for b in one if b.base_offset <= committed} == {
            b.base_offset for b in other if b.base_offset <= committed
        }
