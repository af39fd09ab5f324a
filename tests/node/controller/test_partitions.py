"""ISR, leaders, eligible leaders, elections and reassignments (KRaft brief 5.3)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from node.controller.errors import ApiError
from node.controller.feature_operations import FeatureUpdate, UpdateFeaturesReply, UpgradeType
from node.controller.operations import NewTopic
from node.controller.partition_change import RECOVERING
from node.controller.partition_operations import (
    AssignReplicasToDirsRequest,
    ElectionType,
    IsrMember,
    NewPartitions,
    Reassignment,
)
from node.metadata.features import ELR_VERSION
from node.metadata.schemas import PartitionChangeRecord
from node.metadata.state import BROKER, TOPIC, UNASSIGNED_DIR
from tests.support.nodes.controllers import Cluster, alter


def fence(cluster: Cluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        assert cluster.beat(broker_id, want_fence=True).is_fenced


# --------------------------------------------------------------------------- fencing


def test_fencing_elects_the_next_replica_in_sync_in_the_order_of_assignment() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (3, 1, 2))
    fence(cluster, 3)
    state = cluster.partition()
    assert (state.leader, state.isr) == (1, (1, 2))
    assert (state.leader_epoch, state.partition_epoch) == (1, 1)


def test_a_leader_that_stays_keeps_its_epoch() -> None:
    """Invariant C4: the leader epoch rises with a leader field only."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    fence(cluster, 2)
    state = cluster.partition()
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 0, 1)


def test_without_elr_the_last_of_the_isr_stays_in_it() -> None:
    cluster = Cluster(2, elr=False)
    cluster.topic("t", (1, 2))
    fence(cluster, 1, 2)
    state = cluster.partition()
    assert (state.leader, state.isr, state.eligible_leaders) == (-1, (2,), ())
    cluster.beat(1)
    assert cluster.partition().leader == -1, "it may lack records"
    cluster.beat(2)
    assert cluster.partition().leader == 2


# --------------------------------------------------------------------------- ELR


def test_who_leaves_an_isr_below_the_minimum_stays_eligible() -> None:
    """KIP-966."""
    cluster = Cluster(3)
    cluster.topic("t", (1, 2, 3), min_insync_replicas="2")
    fence(cluster, 3)
    assert cluster.partition().eligible_leaders == ()
    fence(cluster, 2)
    assert (cluster.partition().isr, cluster.partition().eligible_leaders) == ((1,), (2,))
    fence(cluster, 1)
    state = cluster.partition()
    assert (state.isr, state.eligible_leaders, state.leader) == ((), (1, 2), -1)
    assert state.last_known_leaders == (1,)


def test_who_is_in_sync_is_not_eligible_besides() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (1, 2, 3), min_insync_replicas="3")
    fence(cluster, 3)
    assert (cluster.partition().isr, cluster.partition().eligible_leaders) == ((1, 2), (3,))


def test_an_eligible_leader_is_elected_cleanly_when_the_isr_is_empty() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2, 1)
    cluster.beat(2)
    state = cluster.partition()
    assert (state.leader, state.isr, state.eligible_leaders) == (2, (2,), (1,))
    assert (state.recovery, state.last_known_leaders) == (0, ())


def test_a_big_enough_isr_clears_the_elr() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2)
    cluster.beat(2)
    assert cluster.set_isr((1, 2)) == ApiError.NONE
    assert cluster.partition().eligible_leaders == ()


def lose_all(cluster: Cluster) -> None:
    """Leave t-0 with neither ISR nor ELR: its last leader, 1, has stopped uncleanly."""
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2, 1)
    for broker_id in (1, 2):
        cluster.now_ms += 10_000
        cluster.register(broker_id)
    state = cluster.partition()
    assert (state.isr, state.eligible_leaders, state.leader) == ((), (), -1)
    assert state.last_known_leaders == (1,)


def test_with_nobody_eligible_the_last_known_leader_leads_again() -> None:
    cluster = Cluster(2)
    lose_all(cluster)
    cluster.beat(2)
    assert cluster.partition().leader == -1
    cluster.beat(1)
    state = cluster.partition()
    assert (state.leader, state.isr, state.recovery) == (1, (1,), 1)
    assert state.last_known_leaders == ()


def test_a_last_known_leader_that_is_dead_is_not_elected() -> None:
    """Invariant C2."""
    cluster = Cluster(2)
    lose_all(cluster)
    cluster.beat(2)
    reply = cluster.do(cluster.controller.elect_leaders(ElectionType.PREFERRED, {"t": [0]}))
    assert reply.topics["t"][0].error == ApiError.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.partition().leader == -1


def test_the_minimum_is_never_more_than_the_replicas() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,), min_insync_replicas="5")
    fence(cluster, 1)
    assert cluster.partition().eligible_leaders == (1,)
    cluster.beat(1)
    assert cluster.partition().eligible_leaders == ()


def test_a_partition_needs_what_its_own_replicas_allow() -> None:
    """Not those of partition 0, as Apache Kafka has it: docs/findings.md."""
    cluster = Cluster(3)
    cluster.topic("t", (1, 2, 3), (1, 2, 3), min_insync_replicas="2")
    assert reassign(cluster, (1,)) == ApiError.NONE
    fence(cluster, 3)
    fence(cluster, 2)
    state = cluster.partition("t", 1)
    assert (state.isr, state.eligible_leaders) == ((1,), (2,))


def test_another_minimum_clears_the_elr() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2)
    cluster.do(cluster.controller.alter_configs([alter("min.insync.replicas", 0, "1")]))
    assert cluster.partition().eligible_leaders == ()


@pytest.mark.parametrize(("resource", "kind"), [("t", TOPIC), ("", BROKER)])
@pytest.mark.parametrize("committed", [True, False])
def test_another_minimum_forgets_nobody_who_may_lead_what_nobody_leads(
    resource: str, kind: int, *, committed: bool
) -> None:
    """Without a leader nothing was acknowledged by the new minimum: docs/findings.md."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2)
    if committed:
        fence(cluster, 1)
    else:
        cluster.append(cluster.controller.heartbeat(cluster.heartbeat(1, want_fence=True)))
    change = alter("min.insync.replicas", 0, "1", resource=resource, kind=kind)
    cluster.append(cluster.controller.alter_configs([change]))
    cluster.commit()
    state = cluster.partition()
    assert (state.leader, state.isr, state.eligible_leaders) == (-1, (), (1, 2))
    assert state.last_known_leaders == (1,)
    cluster.beat(2)
    assert cluster.partition().leader == 2


def set_elr(cluster: Cluster, level: int) -> UpdateFeaturesReply:
    """Switch eligible leaders on or off."""
    kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    wanted = [FeatureUpdate(ELR_VERSION, level, kind)]
    return cluster.do(cluster.controller.update_features(wanted))


def test_eligible_leaders_are_not_switched_off_while_an_isr_is_empty() -> None:
    """Ours: Apache Kafka does it, and the partition never has a leader again (docs/findings.md)."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="1")
    fence(cluster, 2, 1)
    assert (cluster.partition().isr, cluster.partition().eligible_leaders) == ((), (1,))
    refused = set_elr(cluster, 0)
    assert refused.error == ApiError.INVALID_UPDATE_VERSION
    assert "partition 0 of topic t has an empty ISR: one of the brokers [1]" in str(refused.message)
    cluster.beat(1)
    assert set_elr(cluster, 0).error == ApiError.NONE
    assert ELR_VERSION not in cluster.controller.image.features


def test_nobody_who_was_eligible_before_is_so_when_the_feature_comes_back() -> None:
    """The minimum may have changed meanwhile."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), min_insync_replicas="2")
    fence(cluster, 2)
    for level in (0, 1):
        assert set_elr(cluster, level).error == ApiError.NONE
        if level == 0:
            cluster.do(cluster.controller.alter_configs([alter("min.insync.replicas", 0, "1")]))
    assert cluster.partition().eligible_leaders == ()


def test_a_minimum_is_refused_while_too_many_partitions_have_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("node.controller.configs.KEPT_MAX", 1)
    cluster = Cluster(2)
    cluster.topic("t", (1,), (1,), min_insync_replicas="2")
    fence(cluster, 1)
    change = alter("min.insync.replicas", 0, "1")
    (told,) = cluster.do(cluster.controller.alter_configs([change]))
    assert told.error == ApiError.POLICY_VIOLATION
    assert told.message is not None
    assert "when their brokers are back" in told.message
    assert [cluster.partition(index=i).eligible_leaders for i in (0, 1)] == [(1,), (1,)]


# --------------------------------------------------------------------------- unclean elections


def test_an_unclean_leader_is_elected_where_the_topic_allows_it() -> None:
    cluster = Cluster(2, elr=False)
    cluster.topic("t", (1, 2), unclean_leader_election_enable="true")
    cluster.set_isr((1,))
    fence(cluster, 1)
    state = cluster.partition()
    assert (state.leader, state.isr, state.recovery) == (2, (2,), 1)
    assert cluster.set_isr((2,)) == ApiError.NONE
    assert cluster.partition().recovery == 0


def test_a_setting_changed_later_elects_by_and_by() -> None:
    cluster = Cluster(2, elr=False)
    cluster.topic("t", (1, 2))
    cluster.set_isr((1,))
    fence(cluster, 1)
    assert cluster.do(cluster.controller.elect_unclean()) == 0
    change = alter("unclean.leader.election.enable", 0, "true")
    cluster.do(cluster.controller.alter_configs([change]))
    assert cluster.do(cluster.controller.elect_unclean()) == 1
    assert cluster.partition().leader == 2


# --------------------------------------------------------------------------- AlterPartition


def test_a_leader_gets_the_isr_it_wants() -> None:
    cluster = Cluster(3)
    topic_id = cluster.topic("t", (1, 2, 3))
    assert cluster.set_isr((1,)) == ApiError.NONE
    reply = cluster.do(cluster.controller.alter_partition(cluster.wants_isr((1, 3))))
    (result,) = reply.topics[topic_id]
    assert (result.leader_id, result.isr, result.partition_epoch) == (1, (1, 3), 2)
    assert cluster.partition().isr == (1, 3)


@pytest.mark.parametrize(
    ("isr", "fields", "error"),
    [
        ((1, 2), {"leader_epoch": 9}, ApiError.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 9, "leader_epoch": 0}, ApiError.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 0, "partition_epoch": 0}, ApiError.FENCED_LEADER_EPOCH),
        ((1, 2), {"sender": 2, "partition_epoch": 0}, ApiError.INVALID_REQUEST),
        ((1, 2), {"partition_epoch": 0, "new_isr": ()}, ApiError.INVALID_UPDATE_VERSION),
        ((1, 4), {}, ApiError.INVALID_REQUEST),
        ((1, 1), {}, ApiError.INVALID_REQUEST),
        ((2,), {}, ApiError.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": 1}, ApiError.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 1}, ApiError.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 7}, ApiError.INVALID_REQUEST),
        ((1, 3), {}, ApiError.INELIGIBLE_REPLICA),
        ((1,), {"new_isr": (IsrMember(1), IsrMember(2, 0))}, ApiError.INELIGIBLE_REPLICA),
        ((1,), {"new_isr": (IsrMember(1), IsrMember(2))}, ApiError.NONE),
    ],
)
def test_the_checks_of_alter_partition_in_their_order(
    isr: tuple[int, ...], fields: dict[str, Any], error: ApiError
) -> None:
    """Broker 3 is fenced, 4 is no replica; the leader epoch and the partition epoch are above 0."""
    cluster = Cluster(4)
    topic_id = cluster.topic("t", (3, 1, 2))
    fence(cluster, 3)
    request = cluster.wants_isr(isr, **fields)
    reply = cluster.do(cluster.controller.alter_partition(request))
    assert [row.error for row in reply.topics[topic_id]] == [error]


def test_alter_partition_of_the_unknown_and_of_the_stale() -> None:
    cluster = Cluster(1)
    topic_id = cluster.topic("t", (1,))
    request = cluster.wants_isr((1,))
    (rows,) = request.topics.values()
    strange = UUID(int=9 << 64)
    other = type(request)(1, request.broker_epoch, {strange: rows})
    reply = cluster.controller.alter_partition(other).reply
    assert [r.error for r in reply.topics[strange]] == [ApiError.UNKNOWN_TOPIC_ID]
    (row,) = rows
    absent = type(row)(5, row.leader_epoch, row.partition_epoch, row.new_isr)
    reply = cluster.controller.alter_partition(
        type(request)(1, request.broker_epoch, {topic_id: [absent]})
    ).reply
    assert reply.topics[topic_id][0].error == ApiError.UNKNOWN_TOPIC_OR_PARTITION
    stale = cluster.controller.alter_partition(type(request)(1, 0, request.topics))
    assert stale.reply.error == ApiError.STALE_BROKER_EPOCH


def test_a_broker_that_is_shutting_down_joins_no_isr() -> None:
    """KIP-841."""
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    cluster.topic("u", (2, 1))
    cluster.set_isr((1,))
    cluster.beat(2, want_shut_down=True)
    assert cluster.broker(2).in_controlled_shutdown
    assert cluster.set_isr((1, 2)) == ApiError.INELIGIBLE_REPLICA


def test_the_second_of_two_pipelined_changes_is_refused() -> None:
    """Invariant C5: compare and set on the partition epoch, before anything is committed."""
    cluster = Cluster(2)
    topic_id = cluster.topic("t", (1, 2))
    request = cluster.wants_isr((1,))
    replies = [cluster.controller.alter_partition(request).reply for _ in range(2)]
    errors = [reply.topics[topic_id][0].error for reply in replies]
    assert errors == [ApiError.NONE, ApiError.INVALID_UPDATE_VERSION]


# --------------------------------------------------------------------------- ElectLeaders


def elect(cluster: Cluster, kind: int, topic: str = "t", index: int = 0) -> ApiError:
    reply = cluster.do(cluster.controller.elect_leaders(kind, {topic: [index]}))
    return reply.topics[topic][0].error


def test_the_preferred_leader_leads_again_when_it_is_in_sync() -> None:
    """KIP-183."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    assert elect(cluster, ElectionType.PREFERRED) == ApiError.ELECTION_NOT_NEEDED
    fence(cluster, 1)
    assert elect(cluster, ElectionType.PREFERRED) == ApiError.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.beat(1)
    cluster.set_isr((2, 1))
    assert elect(cluster, ElectionType.PREFERRED) == ApiError.NONE
    assert cluster.partition().leader == 1


@pytest.mark.parametrize("kind", list(ElectionType))
def test_what_is_not_elected_says_why(kind: ElectionType) -> None:
    """As Kafka does, which answers every error with its message."""
    cluster = Cluster(2, elr=False)
    cluster.topic("t", (1,), (2,))
    fence(cluster, 1)
    wanted = {"t": [0, 1]}
    reply = cluster.do(cluster.controller.elect_leaders(kind, wanted))
    gone, led = reply.topics["t"]
    assert led == (
        1,
        ApiError.ELECTION_NOT_NEEDED,
        "Leader election not needed for topic partition.",
    )
    assert (
        gone[1:]
        == {
            ElectionType.PREFERRED: (
                ApiError.PREFERRED_LEADER_NOT_AVAILABLE,
                "The preferred leader was not available.",
            ),
            ElectionType.UNCLEAN: (
                ApiError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            ),
        }[kind]
    )
    reply = cluster.do(cluster.controller.elect_leaders(kind, None))
    assert list(reply.topics["t"]) == [gone]


def test_an_unclean_election_on_demand() -> None:
    """KIP-460."""
    cluster = Cluster(2, elr=False)
    cluster.topic("t", (1, 2))
    assert elect(cluster, ElectionType.UNCLEAN) == ApiError.ELECTION_NOT_NEEDED
    cluster.set_isr((1,))
    fence(cluster, 1)
    assert elect(cluster, ElectionType.UNCLEAN) == ApiError.NONE
    assert cluster.partition().leader == 2
    fence(cluster, 2)
    assert elect(cluster, ElectionType.UNCLEAN) == ApiError.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_refused_elections() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,))
    assert elect(cluster, 0, "no") == ApiError.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, 0, "t", 1) == ApiError.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.controller.elect_leaders(7, None).reply.error == ApiError.INVALID_REQUEST


def test_a_refusal_as_a_whole_names_each_partition() -> None:
    """As Kafka's ElectLeadersRequest.getErrorResponse; clients look at partitions alone."""
    reply = Cluster(1).controller.elect_leaders(7, {"t": [0, 2], "u": []}).reply
    assert (reply.error, set(reply.topics)) == (ApiError.INVALID_REQUEST, {"t", "u"})
    assert [(r.partition, r.error) for r in reply.topics["t"]] == [
        (0, ApiError.INVALID_REQUEST),
        (2, ApiError.INVALID_REQUEST),
    ]


def test_leaders_of_all_partitions_that_need_one() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2), (2, 1))
    fence(cluster, 1)
    cluster.beat(1)
    cluster.set_isr((2, 1))
    reply = cluster.do(cluster.controller.elect_leaders(ElectionType.PREFERRED, None))
    assert [(r.partition, r.error) for r in reply.topics["t"]] == [(0, ApiError.NONE)]


def test_leaders_are_balanced_by_and_by() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    fence(cluster, 1)
    cluster.beat(1)
    assert cluster.do(cluster.controller.balance_leaders()) == 0
    cluster.set_isr((2, 1))
    assert cluster.do(cluster.controller.balance_leaders()) == 1
    assert cluster.partition().leader == 1


# --------------------------------------------------------------------------- reassignments


def reassign(cluster: Cluster, replicas: tuple[int, ...] | None, **options: bool) -> ApiError:
    wanted = {"t": [Reassignment(0, replicas)]}
    result = cluster.controller.alter_partition_reassignments(wanted, **options)
    return cluster.do(result).topics["t"][0].error


def test_a_reassignment_adds_waits_and_removes() -> None:
    """KIP-455; the leader that it leaves out hears NEW_LEADER_ELECTED."""
    cluster = Cluster(4)
    cluster.topic("t", (1, 2))
    assert reassign(cluster, (3, 4)) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    (row,) = cluster.controller.list_partition_reassignments(None)["t"]
    assert (row.adding_replicas, row.removing_replicas) == ((3, 4), (1, 2))
    assert cluster.set_isr((1, 2, 3)) == ApiError.NONE
    assert cluster.set_isr((1, 2, 3, 4)) == ApiError.NEW_LEADER_ELECTED
    state = cluster.partition()
    assert (state.replicas, state.isr, state.leader) == ((3, 4), (3, 4), 3)
    assert (state.adding, state.removing) == ((), ())
    assert cluster.controller.list_partition_reassignments({"t": [0], "no": [1]}) == {}


def test_a_mere_change_of_order_is_done_at_once() -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    assert reassign(cluster, (2, 1)) == ApiError.NONE
    assert cluster.partition().replicas == (2, 1)


def test_fewer_replicas_mean_a_new_leader_epoch() -> None:
    """Who is no replica any more must hear of it."""
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    assert reassign(cluster, (1,)) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.leader, state.leader_epoch) == ((1,), 1, 1)


def test_a_cancelled_reassignment_goes_back_to_the_replicas_from_before() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    assert reassign(cluster, None) == ApiError.NO_REASSIGNMENT_IN_PROGRESS
    reassign(cluster, (3,))
    assert reassign(cluster, None) == ApiError.NONE
    state = cluster.partition()
    assert (sorted(state.replicas), state.adding, state.removing) == ([1, 2], (), ())


@pytest.mark.parametrize("full", [False, True])
def test_a_reassignment_back_to_the_replicas_from_before_is_done_at_once(full: bool) -> None:
    """All are in sync. Kafka since 4.3 waits for ever: docs/findings.md."""
    cluster = Cluster(4, full_targets=full)
    cluster.topic("t", (1, 2, 3))
    reassign(cluster, (1, 2, 4))
    assert (cluster.partition().adding, cluster.partition().removing) == ((4,), (3,))
    assert reassign(cluster, (1, 2, 3)) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 3), (), ())


def test_a_reassignment_forgets_what_the_one_before_wanted_no_more() -> None:
    cluster = Cluster(5)
    cluster.topic("t", (1, 2, 3))
    reassign(cluster, (1, 4, 5))
    assert reassign(cluster, (1, 2, 4)) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 4, 3, 5), (4,), (3, 5))
    assert reassign(cluster, (1, 2, 3, 4, 5)) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 3, 4, 5), (4,), ())
    assert cluster.set_isr((1, 2, 3, 4)) == ApiError.NONE
    assert cluster.partition().adding == ()


def test_who_is_eligible_may_stay_when_a_reassignment_is_given_up() -> None:
    """Broker 1 is fenced and eligible; the cancelled move leaves it so (docs/findings.md)."""
    cluster = Cluster(3)
    cluster.topic("t", (1,))
    reassign(cluster, (2,))
    fence(cluster, 1)
    assert (cluster.partition().isr, cluster.partition().eligible_leaders) == ((), (1,))
    assert reassign(cluster, None) == ApiError.NONE
    state = cluster.partition()
    assert (state.replicas, state.adding, state.removing) == ((1,), (), ())
    assert (state.isr, state.eligible_leaders, state.leader) == ((), (1,), -1)


@pytest.mark.parametrize("unclean", [False, True])
def test_what_only_new_replicas_have_is_not_given_up_unasked(unclean: bool) -> None:
    """Cancelling would elect a leader that may lack records."""
    cluster = Cluster(4, elr=False)
    cluster.topic("t", (1, 2), unclean_leader_election_enable=str(unclean).lower())
    reassign(cluster, (3, 4))
    cluster.set_isr((1, 3))
    fence(cluster, 1)
    assert (cluster.partition().isr, cluster.partition().adding) == ((3,), (3, 4))
    error = reassign(cluster, None)
    assert error == (ApiError.NONE if unclean else ApiError.INVALID_REPLICA_ASSIGNMENT)
    if unclean:
        state = cluster.partition()
        assert (state.leader, state.isr, state.replicas) == (2, (2,), (1, 2))
        assert state.recovery == RECOVERING, "it may lack records (KIP-704)"


@pytest.mark.parametrize("trusts", [False, True])
def test_a_reassignment_is_not_given_up_for_whom_nobody_can_elect(trusts: bool) -> None:
    """It would be in sync by mere words, as in Apache Kafka (docs/findings.md)."""
    cluster = Cluster(4, elr=False, trusts_whom_it_goes_back_to=trusts)
    cluster.topic("t", (1, 2), unclean_leader_election_enable="true")
    reassign(cluster, (3, 4))
    cluster.set_isr((1, 3))
    fence(cluster, 1, 2)
    before = cluster.partition()
    error = reassign(cluster, None)
    if trusts:
        assert error == ApiError.NONE
        assert (cluster.partition().isr, cluster.partition().recovery) == ((1,), 0)
    else:
        assert error == ApiError.INVALID_REPLICA_ASSIGNMENT
        assert cluster.partition() == before


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), ApiError.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ApiError.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ApiError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refused_reassignments(replicas: tuple[int, ...], error: ApiError) -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    assert reassign(cluster, replicas) == error


def test_the_replication_factor_may_be_fixed() -> None:
    """KIP-860."""
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    fixed = {"allow_replication_factor_change": False}
    assert reassign(cluster, (1, 2, 3), **fixed) == ApiError.INVALID_REPLICATION_FACTOR
    assert reassign(cluster, (1, 3), **fixed) == ApiError.NONE


def test_reassignments_of_the_unknown() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,))
    wanted = {"t": [Reassignment(4, (1,))], "no": [Reassignment(0, (1,))]}
    reply = cluster.controller.alter_partition_reassignments(wanted).reply
    errors = [rows[0].error for rows in reply.topics.values()]
    assert errors == [ApiError.UNKNOWN_TOPIC_OR_PARTITION] * 2


# --------------------------------------------------------------------------- directories


def test_a_replica_lies_where_its_broker_says() -> None:
    """KIP-858: the broker's only directory at first, or none yet."""
    cluster = Cluster(1)
    cluster.start(2, log_dirs=(UUID(int=700), UUID(int=701)))
    topic_id = cluster.topic("t", (1, 2))
    assert cluster.partition().directories == (UUID(int=1001), UNASSIGNED_DIR)
    request = AssignReplicasToDirsRequest(
        2,
        cluster.broker(2).epoch,
        {UUID(int=701): {topic_id: [0, 5], UUID(int=1 << 90): [0]}},
    )
    reply = cluster.do(cluster.controller.assign_replicas_to_dirs(request))
    rows = reply.directories[UUID(int=701)]
    assert [r.error for r in rows[topic_id]] == [
        ApiError.NONE,
        ApiError.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert rows[UUID(int=1 << 90)][0].error == ApiError.UNKNOWN_TOPIC_ID
    assert cluster.partition().directories == (UUID(int=1001), UUID(int=701))


def test_a_replica_in_a_directory_that_is_not_online_leaves_the_isr() -> None:
    cluster = Cluster(2)
    topic_id = cluster.topic("t", (1, 2))
    request = AssignReplicasToDirsRequest(
        1, cluster.broker(1).epoch, {UUID(int=9999): {topic_id: [0]}}
    )
    cluster.do(cluster.controller.assign_replicas_to_dirs(request))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def place(cluster: Cluster, broker_id: int, directory: int, topic_id: UUID) -> ApiError:
    """Have a broker tell where its replica of t-0 is."""
    epoch = cluster.broker(broker_id).epoch
    wanted = {UUID(int=directory): {topic_id: [0]}}
    request = AssignReplicasToDirsRequest(broker_id, epoch, wanted)
    reply = cluster.do(cluster.controller.assign_replicas_to_dirs(request))
    return reply.directories[UUID(int=directory)][topic_id][0].error


@pytest.mark.parametrize("elr", [True, False])
def test_whose_disk_was_replaced_does_not_lead_with_the_empty_one(elr: bool) -> None:
    """Ours: Apache Kafka elects it, and all others cut what they have (docs/findings.md)."""
    cluster = Cluster(2, elr=elr)
    topic_id = cluster.topic("t", (1, 2), min_insync_replicas="1")
    fence(cluster, 2, 1)
    cluster.now_ms += 10_000
    cluster.beat(2)
    cluster.start(1, log_dirs=(UUID(int=700),))
    assert cluster.partition().leader == -1, "its disk is not there"
    error = place(cluster, 1, 700, topic_id)
    assert error == (ApiError.NONE if elr else ApiError.INELIGIBLE_REPLICA)
    place(cluster, 1, 700, topic_id)
    fence(cluster, 2)
    cluster.beat(2)
    state = cluster.partition()
    assert state.leader == -1, "nor when others come back"
    assert (state.isr, state.last_known_leaders) == ((), ()) if elr else ((1,), ())
    assert elect(cluster, ElectionType.UNCLEAN) == ApiError.NONE, "an operator gives up what 1 had"
    state = cluster.partition()
    assert (state.leader, state.isr, state.recovery) == (1 if elr else 2, state.isr, 1)


@pytest.mark.parametrize("elr", [True, False])
def test_who_comes_back_without_a_disk_does_not_lead_what_was_on_it(elr: bool) -> None:
    """Ours: Apache Kafka lets it lead while others could (docs/findings.md)."""
    cluster = Cluster(1, elr=elr)
    lost, kept = UUID(int=7001), UUID(int=7002)
    cluster.start(2, log_dirs=(lost, kept))
    topic_id = cluster.topic("t", (2, 1), min_insync_replicas="2")
    assert place(cluster, 2, 7001, topic_id) == ApiError.NONE
    fence(cluster, 1, 2)
    cluster.now_ms += 10_000
    assert not cluster.beat(2, offline_log_dirs=(lost,)).is_fenced
    assert (cluster.partition().leader, cluster.broker(2).log_dirs) == (-1, (kept,))
    cluster.beat(1)
    assert cluster.partition().leader == (1 if elr else -1), "who is eligible leads"


def test_whose_disk_was_replaced_leads_again_when_it_has_caught_up() -> None:
    cluster = Cluster(2)
    topic_id = cluster.topic("t", (1, 2), min_insync_replicas="1")
    fence(cluster, 1)
    cluster.now_ms += 10_000
    cluster.start(1, log_dirs=(UUID(int=700),))
    assert place(cluster, 1, 700, topic_id) == ApiError.NONE
    assert cluster.set_isr((1, 2)) == ApiError.NONE
    fence(cluster, 2)
    assert (cluster.partition().leader, cluster.partition().recovery) == (1, 0)


def test_a_replica_that_moves_between_disks_stays_in_sync() -> None:
    cluster = Cluster(1)
    cluster.start(2, log_dirs=(UUID(int=700), UUID(int=701)))
    topic_id = cluster.topic("t", (2, 1))
    for directory in (700, 701):
        assert place(cluster, 2, directory, topic_id) == ApiError.NONE
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 1))


def test_directories_of_somebody_elses_replica_are_refused() -> None:
    cluster = Cluster(2)
    topic_id = cluster.topic("t", (1,))
    request = AssignReplicasToDirsRequest(
        2, cluster.broker(2).epoch, {UUID(int=1002): {topic_id: [0]}}
    )
    reply = cluster.controller.assign_replicas_to_dirs(request).reply
    assert reply.directories[UUID(int=1002)][topic_id][0].error == ApiError.NOT_LEADER_OR_FOLLOWER


# --------------------------------------------------------------------------- CreatePartitions


def test_a_topic_gets_more_partitions() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    wanted = [NewPartitions("t", 3), NewPartitions("no", 3)]
    replies = cluster.do(cluster.controller.create_partitions(wanted))
    assert [r.error for r in replies] == [ApiError.NONE, ApiError.UNKNOWN_TOPIC_OR_PARTITION]
    assert [len(cluster.partition("t", i).replicas) for i in range(3)] == [2, 2, 2]
    by_hand = [NewPartitions("t", 4, [(3, 1)])]
    cluster.do(cluster.controller.create_partitions(by_hand))
    assert cluster.partition("t", 3).leader == 3


@pytest.mark.parametrize("rows", [None, [(1,)], [(1, 2)]])
def test_a_topic_that_moves_gets_no_partitions(rows: list[tuple[int, ...]] | None) -> None:
    """The controller refuses, as Kafka's did before KRaft (KAFKA-9038)."""
    cluster = Cluster(3)
    cluster.topic("t", (1,))
    assert reassign(cluster, (2,)) == ApiError.NONE
    more = [NewPartitions("t", 2, rows)]
    (refused,) = cluster.controller.create_partitions(more).reply
    assert refused.error == ApiError.REASSIGNMENT_IN_PROGRESS
    assert reassign(cluster, None) == ApiError.NONE
    (reply,) = cluster.do(cluster.controller.create_partitions([NewPartitions("t", 2)]))
    assert (reply.error, len(cluster.partition("t", 1).replicas)) == (ApiError.NONE, 1)


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (1, None, ApiError.INVALID_PARTITIONS),
        (0, None, ApiError.INVALID_PARTITIONS),
        (-5, None, ApiError.INVALID_PARTITIONS),
        (20_000, None, ApiError.POLICY_VIOLATION),
        (2, [(1, 2), (2, 1)], ApiError.INVALID_REPLICA_ASSIGNMENT),
        (2, [(1,)], ApiError.INVALID_REPLICA_ASSIGNMENT),
        (2, [(1, 9)], ApiError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refused_partitions(
    count: int, assignments: list[tuple[int, ...]] | None, error: ApiError
) -> None:
    cluster = Cluster(2)
    cluster.topic("t", (1, 2))
    wanted = [NewPartitions("t", count, assignments)]
    result = cluster.controller.create_partitions(wanted)
    assert ([r.error for r in result.reply], result.entries) == ([error], ())


def test_a_new_partition_begins_with_active_brokers_in_its_isr_only() -> None:
    cluster = Cluster(3)
    fence(cluster, 1)
    cluster.topic("t", (1, 2, 3))
    assert (cluster.partition().isr, cluster.partition().leader) == ((2, 3), 2)
    fence(cluster, 2, 3)
    refused = cluster.controller.create_topics([NewTopic("u", assignments={0: (1,)})]).reply
    assert refused[0].error == ApiError.INVALID_REPLICA_ASSIGNMENT
    refused = cluster.controller.create_topics([NewTopic("u", 1, 1)]).reply
    assert refused[0].error == ApiError.INVALID_REPLICATION_FACTOR


def test_a_broker_with_many_partitions_is_fenced_in_several_batches() -> None:
    """The last record of the last one fences it."""
    cluster = Cluster(2)
    for name in ("a", "b"):
        new = NewTopic(name, 6000, 2)
        assert cluster.do(cluster.controller.create_topics([new]))[0].error == ApiError.NONE
    result = cluster.controller.expire_sessions(9001)
    assert [entry.count for entry in result.entries] == [500]
    cluster.do(result)
    assert cluster.finish() == [500] * 23 + [1]
    assert result.reply is not None
    assert list(cluster.controller.image.isr_partitions(result.reply)) == []
    assert all(isinstance(r, PartitionChangeRecord) for r in cluster.log[-12_001:-1])
