"""C13: who is in sync or eligible has all that was acknowledged (KIP-966); C14: one leads."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from checkers.committed.reference import Reference
from checkers.invariants.eligible import GIVEN_UP, KEPT
from checkers.invariants.metadata_log import MetadataLog
from harness.contracts.evidence import LogSnapshot
from harness.kafka.incarnation import came_back_unclean, next_incarnation
from node.metadata import schemas as s
from node.metadata.records import to_json
from node.metadata.schemas import MetadataRecord
from node.metadata.state import BROKER
from tests.support.traces.brokers import (
    BEGIN,
    change,
    change_broker,
    config,
    create,
    log_of,
    register,
    walked,
)

DIED = next_incarnation(Random(1), unclean=True)
STOPPED = next_incarnation(Random(1))
Batch = Sequence[MetadataRecord]


def level(value: int) -> MetadataRecord:
    return s.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=value)


def cluster_minimum(value: str) -> MetadataRecord:
    return s.ConfigRecord(
        version=0, resource_type=BROKER, resource_name="", name="min.insync.replicas", value=value
    )


ENABLED: Batch = [level(1), cluster_minimum("2")]
SMALL: Batch = change(isr=(1,), eligible_leader_replicas=(2,))  # 2 is out, and eligible
BARE: Batch = change(isr=(), leader=-1, eligible_leader_replicas=(1, 2), last_known_elr=(1,))
CLEAR = s.ClearElrRecord(topic_name="")


def broken(*batches: Batch) -> bool:
    """Tell whether these break C13; what else they break has tests of its own."""
    return any(each.invariant == "C13" for each in walked(*batches).anomalies)


def test_who_leaves_an_isr_that_gets_too_small_has_all() -> None:
    result = walked(ENABLED, SMALL, change(isr=(1, 2), eligible_leader_replicas=()))
    assert result.anomalies == []
    assert result.checked["C13"] == 4, "of these one is the minimum"


@pytest.mark.parametrize(
    "batches",
    [
        [[cluster_minimum("1")]],  # so that 1 acknowledges by itself
        [[config("min.insync.replicas", "1")]],
        [[register(2, 12, DIED)]],
    ],
    ids=("cluster", "topic", "died"),
)
def test_who_may_lack_something_is_not_eligible(batches: list[Batch]) -> None:
    assert broken(ENABLED, SMALL, *batches)


def test_operations_that_share_a_batch_count_one_by_one() -> None:
    alone, joined = change(isr=(1,)), change(isr=(1, 2))
    handed_over: Batch = change(isr=(2,), leader=2)
    assert not broken([level(1), cluster_minimum("1")], alone, [*joined, *handed_over])
    assert broken([level(1), cluster_minimum("1")], alone, handed_over)


def test_a_lower_minimum_clears_those_who_are_eligible() -> None:
    assert not broken(ENABLED, SMALL, [cluster_minimum("1"), CLEAR])
    assert not broken(ENABLED, SMALL, [config("min.insync.replicas", "1"), CLEAR])


def test_a_higher_minimum_takes_nothing_from_anybody() -> None:
    assert not broken(ENABLED, SMALL, [cluster_minimum("3")])


def test_the_minimum_of_a_topic_counts_before_that_of_the_cluster() -> None:
    first: Batch = [config("min.insync.replicas", "2")]
    assert not broken(ENABLED, first, SMALL, [cluster_minimum("1")])
    assert broken(ENABLED, first, SMALL, [config("min.insync.replicas", "1")])


def test_a_minimum_above_the_number_of_replicas_is_that_number() -> None:
    assert not broken([level(1), cluster_minimum("5")], SMALL)


def test_a_broker_that_was_forgotten_has_what_it_had_until_it_comes_back_unclean() -> None:
    """The controller elects registered brokers only."""
    forgotten: Batch = [s.UnregisterBrokerRecord(broker_id=2, broker_epoch=1)]
    assert not broken(ENABLED, SMALL, forgotten)
    assert broken(ENABLED, SMALL, forgotten, [register(2, 13, DIED)])


def test_a_broker_that_stopped_in_good_order_has_what_it_had() -> None:
    assert not broken(ENABLED, SMALL, [register(2, 12, STOPPED)])


def test_a_broker_that_died_leaves_the_isr_though_it_be_the_last() -> None:
    alone: Batch = change(isr=(1,), leader=-1, eligible_leader_replicas=(2,))
    assert broken(ENABLED, SMALL, alone, [register(1, 13, DIED)])
    left: Batch = [register(1, 13, DIED), *change(isr=(), last_known_elr=(1,))]
    assert not broken(ENABLED, SMALL, alone, left)


def test_the_same_incarnation_twice_died_once() -> None:
    again: Batch = [register(2, 14, DIED), *change(eligible_leader_replicas=())]
    caught_up: Batch = change(isr=(1, 2))
    assert not broken(ENABLED, SMALL, again, caught_up, [register(2, 14, DIED)])


def test_nobody_acknowledges_without_a_leader() -> None:
    assert not broken(ENABLED, SMALL, BARE, [cluster_minimum("1"), CLEAR])
    lowered: Batch = [cluster_minimum("1")]
    assert broken(ENABLED, SMALL, BARE, lowered, change(isr=(2,), leader=2))


def test_a_leader_from_nowhere_is_told_unless_it_recovers() -> None:
    lost: Batch = [register(2, 12, DIED), *change(eligible_leader_replicas=())]
    nobody: Batch = change(isr=(), leader=-1, last_known_elr=(1,))
    assert broken(ENABLED, SMALL, lost, nobody, change(isr=(2,), leader=2))
    recovering: Batch = change(isr=(2,), leader=2, leader_recovery_state=1)
    assert not broken(ENABLED, SMALL, lost, nobody, recovering)
    known: Batch = change(isr=(1, 2), leader_recovery_state=0)
    assert not broken(ENABLED, SMALL, lost, nobody, recovering, known)


def test_a_replica_that_was_added_may_lead_at_once() -> None:
    moved: Batch = change(replicas=(1, 2, 3), adding_replicas=(3,), removing_replicas=(1,))
    done: Batch = change(
        replicas=(2, 3), isr=(3, 2), leader=3, adding_replicas=(), removing_replicas=()
    )
    assert not broken(ENABLED, [register(3, 8)], moved, done)


def test_a_replica_that_joins_as_a_move_ends_may_lead_at_once() -> None:
    """The leader, which is moved away, asks for the ISR with which the move is done."""
    small: Batch = change(isr=(2,), leader=2)
    going: Batch = change(removing_replicas=(2,))
    done: Batch = change(replicas=(1,), isr=(1,), leader=1, removing_replicas=())
    assert broken(ENABLED, [cluster_minimum("1")], small, done)
    assert not broken(ENABLED, [cluster_minimum("1")], small, going, done)


def test_who_is_put_in_sync_as_a_reassignment_is_given_up_is_told_as_such() -> None:
    moved: Batch = change(replicas=(2, 1, 3), adding_replicas=(3,))
    small: Batch = change(isr=(1,), eligible_leader_replicas=())
    empty: Batch = change(leader=-1, isr=(), eligible_leader_replicas=(1,))
    given_up: Batch = change(
        replicas=(2, 1), isr=(2,), eligible_leader_replicas=(), adding_replicas=()
    )
    alone: Batch = [cluster_minimum("1")]
    batches: list[Batch] = [ENABLED, [register(3, 8)], alone, small, moved, empty]
    (told,) = [a.message for a in walked(*batches, given_up).anomalies if a.invariant == "C13"]
    assert f" which may lack acknowledged messages{GIVEN_UP}; [1] have all: " in told
    other: Batch = change(isr=(2,), eligible_leader_replicas=())
    (told,) = [a.message for a in walked(*batches, other).anomalies if a.invariant == "C13"]
    assert GIVEN_UP not in told


def test_who_is_no_replica_any_more_is_left_to_another_invariant() -> None:
    gone: Batch = change(leader=1, replicas=(1,))
    found = walked(ENABLED, SMALL, gone).anomalies
    assert [each.invariant for each in found] == ["C3"]


@pytest.mark.parametrize(("adding", "removing"), [((2,), (2,)), ((9,), ()), ((), (9,))])
def test_a_reassignment_adds_and_removes_replicas_and_none_both(
    adding: tuple[int, ...], removing: tuple[int, ...]
) -> None:
    """KIP-455: who is added is to stay, and who is removed is to go."""
    wrong: Batch = change(adding_replicas=adding, removing_replicas=removing)
    assert [each.invariant for each in walked(ENABLED, wrong).anomalies] == ["C3"]
    assert not walked(ENABLED, change(adding_replicas=(1,), removing_replicas=(2,))).anomalies


def test_without_eligible_leaders_nothing_is_promised() -> None:
    assert not broken(change(isr=(1,)), [register(1, 8, DIED)])
    assert not broken(change(isr=(1,)), [register(1, 8, DIED)], ENABLED)  # what is, is the truth
    assert not broken(ENABLED, SMALL, [level(0), *change(eligible_leader_replicas=())])


def test_who_was_eligible_before_may_lack_what_was_acknowledged_since() -> None:
    """The feature is taken back, and given again: meanwhile a minimum has changed."""
    lowered: Batch = [cluster_minimum("1")]
    (anomaly,) = walked(ENABLED, SMALL, [level(0)], lowered, [level(1)]).anomalies
    assert (anomaly.invariant, KEPT in anomaly.message) == ("C13", True)
    assert not broken(ENABLED, SMALL, [level(0)], [level(1)])
    cleared: Batch = [level(1), *change(eligible_leader_replicas=())]
    assert not broken(ENABLED, SMALL, [level(0)], lowered, cleared)


def test_a_topic_that_is_gone_is_forgotten() -> None:
    gone: Batch = [s.RemoveTopicRecord(version=0, topic_id=UUID(int=7))]
    assert not broken(ENABLED, SMALL, gone, create(id_=UUID(int=9)))


def test_a_walk_that_begins_with_a_snapshot_takes_it_for_true() -> None:
    records = tuple(to_json(each) for batch in [*BEGIN, ENABLED, SMALL] for each in batch)
    snapshot = LogSnapshot(len(records), 1, records)
    log = log_of([[register(2, 9, DIED)]], base=len(records))
    found = MetadataLog(Reference(log, snapshot), 99, ()).anomalies
    assert [each.invariant for each in found] == ["C13"]


def alone(*batches: Batch) -> bool:
    """Tell whether these leave a partition alone that somebody may lead (C14)."""
    found = [each.message for each in walked(*batches).anomalies if each.invariant == "C14"]
    return any(" has no leader in the end, " in each for each in found)


def test_a_partition_has_a_leader_in_the_end_if_one_may_lead_it() -> None:
    nobody: Batch = change(leader=-1)
    back: Batch = change(leader=2)
    fenced: Batch = [change_broker(each, each - 1, fenced=1) for each in (1, 2)]
    assert alone(nobody)
    assert not alone(nobody, back)
    assert not alone(nobody, fenced)
    assert alone(nobody, fenced, [change_broker(2, 1, fenced=-1)])
    stopping: Batch = [change_broker(each, each - 1, in_controlled_shutdown=1) for each in (1, 2)]
    assert not alone(nobody, stopping)


def test_who_has_all_messages_leads_though_the_isr_be_empty() -> None:
    back: Batch = change(isr=(2,), leader=2, eligible_leader_replicas=(1,))
    assert alone(ENABLED, SMALL, BARE)
    assert not alone(ENABLED, SMALL, BARE, back)
    assert not alone(SMALL, BARE)  # nobody is eligible without the feature
    gone: Batch = [change_broker(each, each - 1, fenced=1) for each in (1, 2)]
    assert not alone(ENABLED, SMALL, BARE, gone)
    waits: Batch = [*change(isr=(), leader=-1, eligible_leader_replicas=(1,)), *gone[:1]]
    assert not alone(ENABLED, SMALL, [CLEAR], waits)  # 1 will lead when it comes back


def test_who_comes_back_and_may_lead_leads_at_once() -> None:
    nobody: Batch = change(leader=-1)
    fenced: Batch = [change_broker(each, each - 1, fenced=1) for each in (1, 2)]
    comes = change_broker(2, 1, fenced=-1)
    (late, *_) = walked(nobody, fenced, [comes], change(leader=2)).anomalies
    assert late.invariant == "C14"
    assert "at which brokers [2] have come into service, who may lead it" in late.message
    assert walked(nobody, fenced, [comes, *change(leader=2)]).anomalies == []


@pytest.mark.parametrize(("isr", "is_found"), [((1,), False), ((), True)])
def test_who_comes_back_leads_only_if_it_has_all_messages(
    isr: tuple[int, ...], *, is_found: bool
) -> None:
    """2 is eligible, which counts where nobody is in sync."""
    fenced: Batch = [change_broker(each, each - 1, fenced=1) for each in (1, 2)]
    left: Batch = change(isr=isr, leader=-1, eligible_leader_replicas=(2,))
    batches = [ENABLED, SMALL, [*fenced, *left], [change_broker(2, 1, fenced=-1)]]
    late = [a for a in walked(*batches).anomalies if "have come into service" in a.message]
    assert bool(late) is is_found


def test_a_partition_that_forgets_who_has_all_messages_is_left_alone() -> None:
    found = walked(ENABLED, SMALL, BARE, [config("min.insync.replicas", "1"), CLEAR]).anomalies
    assert [each.invariant for each in found] == ["C14"]
    assert "nobody may lead it any more" in found[0].message
    died: Batch = [register(1, 12, DIED), register(2, 13, DIED)]
    assert not alone(ENABLED, SMALL, BARE, [config("min.insync.replicas", "1"), CLEAR], died)


def test_who_has_lost_the_disk_of_a_replica_may_not_lead_it() -> None:
    lost, there = UUID(int=900), UUID(int=901)
    registered = s.RegisterBrokerRecord(
        version=3,
        broker_id=1,
        incarnation_id=STOPPED,
        broker_epoch=6,
        end_points=(),
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(there,),
    )
    for directory, is_alone in ((lost, False), (there, True), (UUID(int=1), True)):
        nobody: Batch = change(isr=(1,), leader=-1, directories=(directory, there))
        assert alone([registered], nobody) is is_alone


def test_incarnations_say_whether_they_died() -> None:
    rng = Random(3)
    assert all(came_back_unclean(next_incarnation(rng, unclean=True)) for _ in range(100))
    assert not any(came_back_unclean(next_incarnation(rng)) for _ in range(100))
    assert len({next_incarnation(rng, unclean=True) for _ in range(100)}) == 100
    assert not came_back_unclean(None)


def test_who_alone_may_lead_is_not_forgotten_when_the_feature_is_switched_off() -> None:
    off: Batch = [level(0)]
    stays: Batch = change(isr=(1,), leader=-1, eligible_leader_replicas=())
    forgets: Batch = change(eligible_leader_replicas=(), last_known_elr=())
    assert alone(ENABLED, SMALL, BARE, off)
    assert alone(ENABLED, SMALL, BARE, off, forgets)
    assert not alone(ENABLED, SMALL, BARE, off, change(isr=(2,), leader=2))
    died: Batch = [register(each, 12 + each, DIED) for each in (1, 2)]
    unfenced: Batch = [change_broker(each, 12 + each, fenced=-1) for each in (1, 2)]
    assert not alone(ENABLED, SMALL, BARE, off, died, unfenced)
    assert not alone(ENABLED, SMALL, [CLEAR], change(isr=(), leader=-1), off)
    assert alone(ENABLED, SMALL, stays, off), "who is in sync may lead without the feature"
    found = walked(ENABLED, SMALL, BARE, off).anomalies
    assert any("but eligible leaders were switched off" in each.message for each in found)
