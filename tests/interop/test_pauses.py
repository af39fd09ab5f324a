"""A node of either kind is stopped for seconds while the other kind leads, and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from harness.systems.kafka.distribution import KafkaDist
from tests.support.cases import cases
from tests.support.kafka.cluster import Quorum
from tests.support.kafka.quorum_files import faults
from tests.support.kafka.quorum_view import described
from tests.support.kafka.quorums import dynamic_quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MIXES = {
    "two-of-kafka": {1: "kafka", 2: "kafka", 3: "ours"},
    "two-of-ours": {1: "ours", 2: "ours", 3: "kafka"},
}
SILENT_MS = 5_000  # far more than the fetch timeout, after which it would stand for election
VALUES = map(str, count(1_000))


@pytest.fixture(scope="module", params=cases(MIXES, long=["two-of-kafka"]))
def mixed(
    request: pytest.FixtureRequest, kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """A running quorum of two controllers of one kind, and node 3 of the other kind."""
    with dynamic_quorum(kafka, tmp_path_factory.mktemp("paused"), request.param) as quorum:
        quorum.start_all()
        quorum.await_replicated()
        yield quorum


def await_silence(quorum: Quorum, node_id: int) -> None:
    """Wait until the leader has not heard from that node for long."""

    def silent() -> bool:
        (replica,) = [v for v in described(quorum).voters if v.key.id == node_id]
        last_ms = replica.last_fetch_ms
        return last_ms is not None and last_ms < time.time_ns() // 1_000_000 - SILENT_MS

    quorum.wait_for(silent, f"{node_id} is silent")


def test_a_follower_that_was_stopped_for_seconds_catches_up_and_disturbs_nobody(
    mixed: Quorum,
) -> None:
    mixed.make_leader(1)
    mixed.start_all()
    mixed.await_replicated()
    before = mixed.await_leader()
    mixed[3].pause()
    mixed.write(next(VALUES))
    await_silence(mixed, 3)
    mixed.write(next(VALUES))
    mixed[3].resume()
    mixed.write(next(VALUES))
    mixed.await_replicated()
    after = mixed.await_leader()
    assert (after.leader_id, after.epoch) == (before.leader_id, before.epoch), "pre-votes were lost"


def test_a_leader_that_was_stopped_for_seconds_follows_the_next_one(mixed: Quorum) -> None:
    mixed.make_leader(3)
    mixed.start_all()
    mixed.await_replicated()
    before = mixed.await_leader()
    mixed[3].pause()
    after = mixed.await_leader([1, 2], after_epoch=before.epoch)
    mixed.write(next(VALUES))
    mixed[3].resume()
    mixed.write(next(VALUES))
    mixed.await_replicated()
    assert mixed.await_leader().epoch >= after.epoch
    assert {m.node_id: faults(m) for m in mixed} == {1: [], 2: [], 3: []}
