"""A broker's end or return changes very many partitions in slices: any may be the last."""

from __future__ import annotations

from uuid import UUID

import pytest

from node.controller.broker_operations import BrokerRegistrationReply
from node.controller.errors import ApiError
from node.controller.partition_operations import AssignReplicasToDirsRequest
from node.metadata.schemas import BrokerRegistrationChangeRecord
from tests.support.nodes.controllers import Cluster, registration

PARTITIONS = 10
SLICE = 3


def cluster_of(copies: int = 3, *, elr: bool = True) -> Cluster:
    """Three brokers that all have all partitions, or one each."""
    cluster = Cluster(3, elr=elr, partitions_per_slice=SLICE)
    rows = [tuple((first + n) % 3 + 1 for n in range(copies)) for first in range(PARTITIONS)]
    cluster.topic("t", *rows)
    return cluster


def in_sync(cluster: Cluster, broker_id: int) -> int:
    return sum(broker_id in p.isr for p in cluster.controller.image.topics["t"].partitions.values())


def led(cluster: Cluster, broker_id: int) -> int:
    return cluster.controller.image.led_count(broker_id)


def test_a_silent_broker_is_taken_out_in_slices_and_fenced_by_the_last() -> None:
    cluster = cluster_of()
    cluster.now_ms = 9001
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    cluster.do(cluster.controller.expire_sessions(cluster.now_ms))
    assert (in_sync(cluster, 1), cluster.broker(1).fenced) == (PARTITIONS - SLICE, False)
    assert cluster.finish() == [SLICE, SLICE, 2]
    assert (in_sync(cluster, 1), led(cluster, 1), cluster.broker(1).fenced) == (0, 0, True)
    assert isinstance(cluster.log[-1], BrokerRegistrationChangeRecord)


def test_while_it_is_taken_out_it_is_told_that_it_is_fenced_and_comes_back_only_after() -> None:
    cluster = cluster_of()
    assert cluster.beat(1, want_fence=True).is_fenced
    assert not cluster.broker(1).fenced
    before = len(cluster.log)
    reply = cluster.beat(1)
    assert (reply.error, reply.is_fenced, len(cluster.log)) == (ApiError.NONE, True, before)
    request = cluster.wants_isr((1, 2, 3))  # partition 0, of which it was the leader
    assert cluster.do(cluster.controller.alter_partition(request)).topics
    assert 1 not in cluster.partition().isr
    cluster.finish()
    assert cluster.broker(1).fenced
    assert not cluster.beat(1).is_fenced


def test_one_that_wants_to_stop_may_when_all_is_moved_and_known() -> None:
    cluster = cluster_of()
    reply = cluster.beat(1, want_shut_down=True)
    assert (reply.in_controlled_shutdown, reply.should_shut_down) == (True, False)
    for known in (2, 3):
        cluster.beat(known)
    assert led(cluster, 1)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.finish()
    assert (led(cluster, 1), in_sync(cluster, 1)) == (0, 0)
    last = len(cluster.log) - 1
    for known in (2, 3):  # all but the last of it
        cluster.beat(known, current_metadata_offset=last - 1)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    for known in (2, 3):
        cluster.beat(known, current_metadata_offset=last)
    assert cluster.beat(1, want_shut_down=True).should_shut_down


@pytest.mark.parametrize("slices", range(4))
def test_the_next_controller_goes_on_with_a_shutdown(slices: int) -> None:
    cluster = cluster_of()
    cluster.beat(1, want_shut_down=True)
    for _ in range(slices):
        cluster.do(cluster.controller.sweep())
    cluster.append(cluster.controller.no_op())
    cluster.fail_over()
    assert cluster.broker(1).in_controlled_shutdown
    told = []
    for _ in range(4):
        told.append(cluster.beat(1, want_shut_down=True).should_shut_down)
        cluster.finish()
        for known in (2, 3):
            cluster.beat(known)
    assert told[-1]
    assert (led(cluster, 1), in_sync(cluster, 1)) == (0, 0)


@pytest.mark.parametrize("slices", range(4))
def test_the_next_controller_fences_whom_the_one_before_was_about_to_fence(slices: int) -> None:
    cluster = cluster_of()
    cluster.now_ms = 9001
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    cluster.do(cluster.controller.expire_sessions(cluster.now_ms))
    for _ in range(slices):
        cluster.commit()
        cluster.append(cluster.controller.sweep())  # the last one is lost
    cluster.fail_over(now_ms=cluster.now_ms)
    assert not cluster.broker(1).fenced
    assert cluster.controller.sweeps == 0
    cluster.now_ms += 9001
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    cluster.do(cluster.controller.expire_sessions(cluster.now_ms))
    cluster.finish()
    assert (in_sync(cluster, 1), cluster.broker(1).fenced) == (0, True)


def test_the_next_controller_finds_leaders_that_the_one_before_was_about_to_find() -> None:
    cluster = cluster_of(1)
    cluster.beat(1, want_fence=True)
    cluster.finish()
    nobodys = led(cluster, -1)
    assert nobodys > SLICE
    cluster.beat(1)
    assert (cluster.broker(1).fenced, led(cluster, 1)) == (False, SLICE)
    cluster.fail_over()
    cluster.finish()
    assert (led(cluster, -1), led(cluster, 1)) == (0, nobodys)


def test_one_that_leads_nothing_but_is_in_many_isrs_goes_when_it_is_out_of_them() -> None:
    cluster = Cluster(2, partitions_per_slice=SLICE)
    cluster.topic("t", *[(2, 1)] * PARTITIONS)
    reply = cluster.beat(1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, False)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.finish()
    assert in_sync(cluster, 1) == 0
    assert cluster.beat(1, want_shut_down=True).should_shut_down


@pytest.mark.parametrize("elr", [True, False])
def test_another_incarnation_is_let_in_when_the_one_before_is_out_of_all(elr: bool) -> None:
    cluster = cluster_of(1, elr=elr)
    cluster.now_ms = 9001
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    request = registration(1, incarnation=99)
    reply = cluster.do(cluster.controller.register_broker(request, cluster.now_ms))
    assert reply.error == ApiError.DUPLICATE_BROKER_REGISTRATION
    cluster.finish()
    for _ in range(2):  # without ELR partitions keep their only replica in the ISR
        reply = cluster.do(cluster.controller.register_broker(request, cluster.now_ms))
        cluster.finish()
    assert reply.error == ApiError.NONE


def test_the_walk_for_an_incarnation_does_nothing_to_the_next_one() -> None:
    cluster = cluster_of()
    cluster.beat(1, want_shut_down=True)
    cluster.now_ms = 9001
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    stopping = cluster.controller.sweeps
    request = registration(1, incarnation=99)
    replies: list[BrokerRegistrationReply] = []
    while len(replies) < PARTITIONS and (not replies or replies[-1].error != ApiError.NONE):
        replies.append(cluster.do(cluster.controller.register_broker(request, cluster.now_ms)))
        cluster.do(cluster.controller.sweep())
    assert (stopping, replies[-1].error) == (1, ApiError.NONE)
    assert not cluster.beat(1).is_fenced
    leader = cluster.partition(index=PARTITIONS - 1).leader
    joins = cluster.wants_isr((1, leader), index=PARTITIONS - 1)
    cluster.do(cluster.controller.alter_partition(joins))
    cluster.finish()
    assert 1 in cluster.partition(index=PARTITIONS - 1).isr


def test_who_is_in_many_isrs_is_unregistered_when_it_is_out_of_them() -> None:
    cluster = cluster_of()
    reply = cluster.do(cluster.controller.unregister_broker(1))
    assert reply.error == ApiError.REQUEST_TIMED_OUT
    assert cluster.beat(1).is_fenced
    cluster.finish()
    assert in_sync(cluster, 1) == 0
    assert cluster.do(cluster.controller.unregister_broker(1)).error == ApiError.NONE
    assert 1 not in cluster.controller.image.brokers


def test_replicas_on_a_failed_disk_are_taken_out_in_slices() -> None:
    cluster = Cluster(partitions_per_slice=SLICE)
    lost, good = UUID(int=2001), UUID(int=2002)
    cluster.start(1, log_dirs=(lost, good))
    cluster.start(2)
    cluster.topic("t", *[(1, 2)] * PARTITIONS)
    topic_id = cluster.controller.image.topics["t"].id
    for directory, indexes in ((good, [0, 1, 2, 3, 4]), (lost, [5, 6, 7, 8, 9])):
        where = {directory: {topic_id: indexes}}
        request = AssignReplicasToDirsRequest(1, cluster.broker(1).epoch, where)
        cluster.do(cluster.controller.assign_replicas_to_dirs(request))
    cluster.beat(1, offline_log_dirs=(lost,))
    assert (led(cluster, 1), cluster.broker(1).log_dirs) == (PARTITIONS, (lost, good))
    cluster.beat(1, offline_log_dirs=(lost,))  # it says so again and again
    assert cluster.finish() == [1, SLICE, 2]
    assert (led(cluster, 1), cluster.broker(1).log_dirs) == (5, (good,))
