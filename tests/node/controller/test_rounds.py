"""The controller's own elections look at some partitions at a time, whatever they find."""

from __future__ import annotations

import pytest

from node.controller import leader_elections
from node.controller.operations import NewTopic
from tests.support.nodes.controllers import Cluster

LOOKED_AT = 3
PARTITIONS = 10


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_elections, "_LOOKED_AT_MAX", LOOKED_AT)


def cluster_of(replicas: tuple[int, ...], settings: dict[str, str] | None = None) -> Cluster:
    cluster = Cluster(3, elr=False)
    topic = NewTopic(
        "t",
        assignments=dict.fromkeys(range(PARTITIONS), replicas),
        configs=settings or {},
    )
    assert not cluster.do(cluster.controller.create_topics([topic]))[0].error
    cluster.beat(1, want_fence=True)
    cluster.finish()
    return cluster


def test_partitions_that_cannot_be_given_back_are_looked_at_once_in_a_round() -> None:
    cluster = cluster_of((1, 2))
    looks = 0
    while True:
        assert cluster.do(cluster.controller.balance_leaders()) == 0
        looks += 1
        if not cluster.controller.balancing:
            break
    assert looks == PARTITIONS // LOOKED_AT + 1


def test_a_round_gives_back_all_that_can_be() -> None:
    cluster = cluster_of((1, 2))
    cluster.beat(1)
    for index in range(PARTITIONS):
        cluster.do(cluster.controller.alter_partition(cluster.wants_isr((1, 2), index=index)))
    elected = [cluster.do(cluster.controller.balance_leaders())]
    while cluster.controller.balancing:
        elected.append(cluster.do(cluster.controller.balance_leaders()))
    assert elected == [3, 3, 3, 1]
    assert cluster.controller.image.led_count(1) == PARTITIONS


def under_way(cluster: Cluster) -> tuple[bool, bool]:
    return cluster.controller.balancing, cluster.controller.electing_unclean


def test_a_new_reign_begins_a_round_of_its_own() -> None:
    cluster = cluster_of((1, 2))
    cluster.do(cluster.controller.balance_leaders())
    assert under_way(cluster) == (True, False)
    cluster.fail_over()
    assert under_way(cluster) == (False, False)
    alone = cluster_of((1,))
    alone.do(alone.controller.elect_unclean())
    assert alone.controller.electing_unclean
    alone.fail_over()
    assert under_way(alone) == (False, False)


def test_unclean_elections_come_in_rounds_too() -> None:
    cluster = cluster_of((1,))
    assert cluster.controller.image.led_count(-1) == PARTITIONS
    looks = [cluster.do(cluster.controller.elect_unclean())]
    while cluster.controller.electing_unclean:
        looks.append(cluster.do(cluster.controller.elect_unclean()))
    assert looks == [0, 0, 0, 0]
