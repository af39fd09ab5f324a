"""A leader's view of its quorum, as DescribeQuorum gives it."""

from __future__ import annotations

from uuid import UUID

from harness.kafka.quorum import _newest
from node.core.messages import ReplicaStatus
from node.core.types import ReplicaKey

OLD, NEW = UUID(int=1), UUID(int=2)
NOW_MS = 10_000


def status(node: int, disk: UUID, end: int, fetched_ms: int) -> ReplicaStatus:
    return ReplicaStatus(ReplicaKey(node, disk), end, fetched_ms, None)


def test_of_the_replicas_of_a_node_the_one_that_fetched_last_counts() -> None:
    leader = status(1, NEW, 9, NOW_MS)
    newer, older = status(2, NEW, 3, NOW_MS - 1), status(2, OLD, 9, NOW_MS - 2)
    for replicas in ((leader, newer, older), (older, newer, leader)):
        assert _newest(replicas, 1)[2].log_end == 3


def test_a_fetch_that_is_ahead_of_the_clock_makes_no_replica_the_newer_one() -> None:
    """The clock of the leader was an hour ahead when a node fetched that was wiped since then."""
    leader, before = status(1, NEW, 9, NOW_MS), status(2, OLD, 3, NOW_MS + 3_600_000)
    now = status(2, NEW, 9, NOW_MS - 5)
    for replicas in ((leader, before, now), (now, before, leader)):
        assert _newest(replicas, 1)[2].log_end == 9
    assert _newest((leader, before), 1)[2].log_end == 3
