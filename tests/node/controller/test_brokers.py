"""Registration, heartbeats, sessions and shutdown of brokers (KRaft brief 5.2)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from node.controller.broker_operations import BrokerHeartbeatRequest
from node.controller.errors import ApiError
from node.controller.partition_operations import AssignReplicasToDirsRequest
from node.metadata.features import METADATA_VERSION
from node.metadata.schemas import (
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tests.support.nodes.controllers import Cluster, registration

# --------------------------------------------------------------------------- registration


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    """KIP-631; invariant C1."""
    cluster = Cluster()
    epoch = cluster.register(1)
    record = cluster.log[epoch]
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced) == (epoch, True)
    assert cluster.broker(1).epoch == epoch


def test_the_epoch_is_right_whatever_else_is_appended_meanwhile() -> None:
    cluster = Cluster()
    result = cluster.controller.register_broker(registration(1), 0)
    cluster.log.append(cluster.log[-1])  # a control record of the quorum, say
    cluster.append(result)
    assert result.reply.broker_epoch == len(cluster.log) - 1
    cluster.committed = len(cluster.log) - 1
    cluster.commit()
    assert cluster.broker(1).epoch == result.reply.broker_epoch


def test_the_same_incarnation_keeps_its_epoch_and_its_state() -> None:
    cluster = Cluster()
    epoch = cluster.start(1)
    incarnation = cluster.broker(1).incarnation
    request = registration(1, rack="r", incarnation_id=incarnation)
    reply = cluster.do(cluster.controller.register_broker(request, 0))
    assert reply.broker_epoch == epoch
    broker = cluster.broker(1)
    assert (broker.epoch, broker.fenced, broker.rack) == (epoch, False, "r")


def test_a_registration_sent_again_before_the_first_has_an_offset_has_its_epoch() -> None:
    cluster = Cluster()
    controller = cluster.controller
    results = [controller.register_broker(registration(1), 0) for _ in range(2)]
    for result in results:
        cluster.append(result)
    cluster.commit()
    first, second = (result.reply.broker_epoch for result in results)
    assert first == second == cluster.broker(1).epoch
    assert len(controller._overlay) == 0


def test_an_amended_registration_must_be_known_before_unfencing() -> None:
    """Invariant C6: the offset of the last registration record counts."""
    cluster = Cluster()
    epoch = cluster.register(1)
    again = registration(1, incarnation_id=cluster.broker(1).incarnation)
    cluster.do(cluster.controller.register_broker(again, 0))
    assert cluster.beat(1, current_metadata_offset=epoch).is_fenced
    assert not cluster.beat(1, current_metadata_offset=epoch + 1).is_fenced


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "other"}, ApiError.INCONSISTENT_CLUSTER_ID),
        ({"incarnation_id": None}, ApiError.INVALID_REGISTRATION),
        ({"log_dirs": ()}, ApiError.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=5),)}, ApiError.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=500), UUID(int=500))}, ApiError.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=1001),)}, ApiError.INVALID_REGISTRATION),
        ({"features": ()}, ApiError.INVALID_REGISTRATION),  # metadata.version must be among them
        ({"is_migrating_zk_broker": True}, ApiError.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_refused_registrations(fields: dict[str, Any], error: ApiError) -> None:
    cluster = Cluster(1)
    result = cluster.controller.register_broker(registration(2, **fields), 0)
    assert (result.reply.error, result.reply.broker_epoch, result.entries) == (error, -1, ())


def test_a_finalised_level_outside_a_brokers_range_is_refused() -> None:
    """KIP-584."""
    cluster = Cluster()
    old = BrokerFeature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=20)
    reply = cluster.controller.register_broker(registration(1, features=(old,)), 0).reply
    assert reply.error == ApiError.UNSUPPORTED_VERSION


def test_another_incarnation_must_wait_until_the_session_is_over() -> None:
    """DUPLICATE_BROKER_REGISTRATION."""
    cluster = Cluster(1)
    second = registration(1, incarnation=77)
    cluster.now_ms = 9000
    early = cluster.do(cluster.controller.register_broker(second, cluster.now_ms))
    assert early.error == ApiError.DUPLICATE_BROKER_REGISTRATION
    late = cluster.do(cluster.controller.register_broker(second, 9001))
    assert late.error == ApiError.NONE
    assert cluster.broker(1).fenced


@pytest.mark.parametrize("others", [0, 1])
def test_after_a_clean_shutdown_the_next_incarnation_need_not_wait(others: int) -> None:
    """KRAFT.md 5.2: a fast restart waits for the end of the session or for a clean shutdown."""
    cluster = Cluster(1 + others)
    if others:
        cluster.topic("t", (1, 2))
        assert not cluster.beat(1, want_shut_down=True).should_shut_down
        refused = cluster.do(
            cluster.controller.register_broker(registration(1, incarnation=77), cluster.now_ms)
        )
        assert refused.error == ApiError.DUPLICATE_BROKER_REGISTRATION, "it has not stopped yet"
        cluster.beat(2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    again = cluster.do(
        cluster.controller.register_broker(registration(1, incarnation=77), cluster.now_ms)
    )
    assert again.error == ApiError.NONE
    assert cluster.broker(1).fenced


def test_a_new_incarnation_is_in_no_isr_before_it_is_registered() -> None:
    """The registration is the last record of its batch."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    cluster.now_ms = 10_000
    cluster.beat(2)
    epoch = cluster.register(1)
    state = cluster.partition()
    assert (state.isr, state.leader, epoch) == ((2,), 2, len(cluster.log) - 1)


@pytest.mark.parametrize(("clean", "elr"), [(True, (1,)), (False, ())])
def test_an_unclean_stop_takes_a_broker_out_of_the_elr(clean: bool, elr: tuple[int, ...]) -> None:
    """KIP-966: PreviousBrokerEpoch tells."""
    cluster = Cluster(2)
    epoch = cluster.broker(1).epoch
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    cluster.beat(1, want_shut_down=True)
    cluster.beat(2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.partition().eligible_leaders == (1,)
    cluster.now_ms = 10_000
    cluster.register(1, previous_broker_epoch=epoch if clean else -1)
    assert cluster.partition().eligible_leaders == elr


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_who_comes_for_the_first_time_has_not_stopped_uncleanly(order: tuple[int, ...]) -> None:
    """C14: a topic that was made on brokers to come has a leader when all of them have come."""
    cluster = Cluster(broker_ids=(1, 2, 3))
    cluster.topic("t", (1, 2, 3))
    for broker in order:
        cluster.register(broker)
    for broker in order:
        cluster.beat(broker)
    assert cluster.partition().leader in order


# --------------------------------------------------------------------------- heartbeats


def test_a_broker_is_unfenced_when_it_knows_of_its_registration_and_wants_to() -> None:
    """Invariant C6."""
    cluster = Cluster()
    epoch = cluster.register(1)
    behind = cluster.beat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    unwilling = cluster.beat(1, want_fence=True)
    assert (unwilling.is_caught_up, unwilling.is_fenced) == (True, True)
    assert cluster.beat(1).is_fenced is False
    assert not cluster.broker(1).fenced


def test_heartbeats_of_others_are_refused() -> None:
    cluster = Cluster(1)
    stale = cluster.controller.heartbeat(cluster.heartbeat(1, broker_epoch=0)).reply
    assert (stale.error, stale.is_fenced) == (ApiError.STALE_BROKER_EPOCH, True)
    stranger = BrokerHeartbeatRequest(broker_id=9, broker_epoch=0, current_metadata_offset=0)
    assert cluster.controller.heartbeat(stranger).reply.error == ApiError.BROKER_ID_NOT_REGISTERED


def test_an_unchanged_state_makes_no_record() -> None:
    cluster = Cluster(1)
    assert cluster.controller.heartbeat(cluster.heartbeat(1)).entries == ()


@pytest.mark.parametrize("down", [False, True])
def test_an_unfenced_broker_that_wants_to_be_fenced_is(down: bool) -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    reply = cluster.beat(1, want_fence=True, want_shut_down=down)
    assert (reply.is_fenced, reply.should_shut_down) == (True, down)
    assert cluster.broker(1).fenced
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_a_fenced_broker_may_shut_down_at_once() -> None:
    cluster = Cluster()
    cluster.register(1)
    assert cluster.beat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_leads_nothing_may_shut_down_at_once() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (2, 1))
    reply = cluster.beat(1, want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert cluster.partition().isr == (2,)


def test_a_controlled_shutdown_waits_until_all_active_brokers_know_the_new_leaders() -> None:
    """Invariant C7; the offset is set once (KAFKA-14292)."""
    cluster = Cluster(3)
    cluster.topic("t", (1, 2, 3))
    first = cluster.beat(1, want_shut_down=True)
    offset = len(cluster.log) - 1
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert cluster.broker(1).in_controlled_shutdown
    assert cluster.partition().leader == 2
    cluster.do(cluster.controller.no_op())
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(2, current_metadata_offset=offset)
    cluster.beat(3, current_metadata_offset=offset - 1)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(3, current_metadata_offset=offset)
    last = cluster.beat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert cluster.broker(1).fenced


def test_a_shutdown_that_is_not_committed_is_not_finished() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    controller = cluster.controller
    begun = controller.heartbeat(cluster.heartbeat(1, want_shut_down=True))
    again = controller.heartbeat(cluster.heartbeat(1, want_shut_down=True))
    assert not again.reply.should_shut_down, "its offset is not known"
    cluster.append(begun)
    assert not controller.heartbeat(
        cluster.heartbeat(1, want_shut_down=True)
    ).reply.should_shut_down


# --------------------------------------------------------------------------- sessions


def test_one_silent_broker_is_fenced_per_check_the_most_silent_first() -> None:
    cluster = Cluster(3)
    assert cluster.controller.session_check_interval_ms == 1125
    cluster.now_ms = 1000
    cluster.beat(2)
    assert cluster.do(cluster.controller.expire_sessions(9000)) is None
    assert cluster.do(cluster.controller.expire_sessions(10_001)) in (1, 3)
    assert sum(b.fenced for b in cluster.controller.image.brokers.values()) == 1
    assert cluster.do(cluster.controller.expire_sessions(10_001)) in (1, 3)
    assert cluster.do(cluster.controller.expire_sessions(10_001)) == 2
    assert cluster.do(cluster.controller.expire_sessions(10_001)) is None


def test_a_fenced_broker_is_fenced_once() -> None:
    cluster = Cluster()
    cluster.register(1)
    cluster.beat(1, want_fence=True)
    assert cluster.controller.expire_sessions(10_000).entries == ()


def test_contact_counts_for_the_registered_incarnation_only() -> None:
    cluster = Cluster(1)
    cluster.controller.contact(1, 0, 5000)
    cluster.controller.contact(9, 9, 5000)
    assert cluster.controller.expire_sessions(9001).reply == 1


def test_a_new_reign_gives_brokers_in_service_a_fresh_session() -> None:
    """KAFKA-18138; nobody is fenced early after a failover."""
    cluster = Cluster(1)
    cluster.controller.renounce()
    cluster.controller.claim(2, 100_000)
    assert cluster.controller.expire_sessions(109_000).reply is None
    assert cluster.controller.expire_sessions(109_001).reply == 1


# --------------------------------------------------------------------------- unregister


def test_an_unregistered_broker_is_forgotten_and_in_no_isr() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    assert cluster.do(cluster.controller.unregister_broker(1)).error == ApiError.NONE
    assert 1 not in cluster.controller.image.brokers
    assert (cluster.partition().isr, cluster.partition().leader) == ((2,), 2)
    unknown = cluster.controller.unregister_broker(1).reply
    assert unknown.error == ApiError.BROKER_ID_NOT_REGISTERED


def test_a_broker_can_be_unregistered_before_its_registration_has_an_offset() -> None:
    cluster = Cluster()
    registered = cluster.controller.register_broker(registration(1), 0)
    unregistered = cluster.controller.unregister_broker(1)
    cluster.append(registered)
    cluster.append(unregistered)
    cluster.commit()
    assert cluster.controller.image.brokers == {}
    assert len(cluster.controller._overlay) == 0


def test_a_failed_directory_takes_its_replicas_out_of_the_isr() -> None:
    """KIP-858: offline directories in a heartbeat."""
    cluster = Cluster(1)
    lost, kept = UUID(int=7001), UUID(int=7002)
    cluster.start(2, log_dirs=(lost, kept))
    topic_id = cluster.topic("t", (2, 1), (2, 1))
    assign = {lost: {topic_id: [0]}, kept: {topic_id: [1]}}
    request = AssignReplicasToDirsRequest(2, cluster.broker(2).epoch, assign)
    cluster.do(cluster.controller.assign_replicas_to_dirs(request))
    cluster.beat(2, offline_log_dirs=(lost, UUID(int=9)))
    assert [cluster.partition("t", i).leader for i in (0, 1)] == [1, 2]
    assert cluster.partition().isr == (1,)
    assert cluster.broker(2).log_dirs == (kept,)
    change = cluster.log[-1]
    assert isinstance(change, BrokerRegistrationChangeRecord)
