"""One test per sentence of KIP-853: voters in the log, and how they change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.config import LogState
from node.core.messages import (
    AddVoterRequest,
    Batch,
    BeginQuorumEpochRequest,
    ControlRecords,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    KRaftVersion,
    LeaderChange,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    Voters,
)
from node.core.types import (
    KRAFT_VERSIONS,
    STATIC_ONLY,
    ElectionState,
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
    Voter,
    VoterSet,
)
from tests.support.raft.one import (
    CLUSTER_ID,
    One,
    endpoint,
    key,
    keyed_voter,
    keyed_voters,
    listeners,
)

START = 3  # LeaderChange, KRaftVersion, Voters


def log_with(voters: VoterSet, end: int = 1) -> LogState:
    """A log whose first record names the voters."""
    return LogState(0, end, end, ((1, 0),), (), ((0, voters),), ((0, 1),))


def committed(voters: int = 3, **more: Any) -> One:
    """A leader that has committed the start of its epoch."""
    one = One.dynamic(voters=voters, **more)
    one.lead()
    for i in range(2, voters // 2 + 2):
        one.fetch(i, START)
    assert one.replica.high_watermark == START
    return one


def voters_batch(base: int, voters: VoterSet, epoch: int) -> Batch:
    return Batch(base, base, epoch, base + 7, True, b"", (Voters(voters),))


def sent_voters(one: One) -> VoterSet:
    """The voter set appended in the last call."""
    (append,) = one.of(fx.AppendAsLeader)
    assert isinstance(append.content, ControlRecords)
    (record,) = append.content.records
    assert isinstance(record, Voters)
    return record.voters


def ids(one: One) -> tuple[int, ...]:
    return one.replica.voters.ids


# ---------------------------------------------------------------- the set in force


def test_the_bootstrap_snapshot_names_the_first_voters() -> None:
    """KIP-853, "Bootstrapping": the voters of 00000000000000000000-0000000000.checkpoint."""
    one = One.dynamic()
    assert ids(one) == (1, 2, 3)
    assert one.replica.kraft_version == 1
    assert one.replica.is_voter


def test_a_controller_without_initial_controllers_is_an_observer_of_nobody() -> None:
    """KIP-853, "--no-initial-controllers": an empty set, and the bootstrap servers to ask."""
    one = One.dynamic(4, log=LogState(), bootstrap=(endpoint(1),))
    assert ids(one) == ()
    (send,) = one.sends(FetchRequest)
    assert send.endpoint == endpoint(1)
    one.wait(60_000)
    assert one.replica.role == "unattached"


def test_an_appended_set_is_in_force_before_it_is_committed() -> None:
    """KIP-853: "uses the latest voter set in its log, committed or not"."""
    one = One.dynamic(1, election=ElectionState(1, 2))
    one.fetched(voters_batch(0, keyed_voters(1, 2), 1), hwm=0)
    assert ids(one) == (1, 2)
    assert one.of(fx.VotersChanged) == [fx.VotersChanged(keyed_voters(1, 2), 1)]
    (trace,) = one.traces("voters")
    assert trace == {
        "off": 0,
        "set": [(1, key(1).directory_id.hex), (2, key(2).directory_id.hex)],  # type: ignore[union-attr]
        "kv": 1,
        "revert": False,
    }
    assert one.replica.high_watermark is None


def test_a_truncated_set_gives_way_to_the_one_before() -> None:
    """KIP-853: "if the log is truncated the replica must revert"."""
    log = LogState(
        0,
        4,
        4,
        ((1, 0), (2, 2)),
        (),
        ((0, keyed_voters(1, 2, 3)), (2, keyed_voters(1, 2))),
        ((0, 1),),
    )
    one = One.dynamic(1, election=ElectionState(3, 2), log=log)
    assert ids(one) == (1, 2)
    one.fetched(diverging=OffsetAndEpoch(2, 1))
    assert ids(one) == (1, 2, 3)
    (trace,) = one.traces("voters")
    assert (trace["off"], trace["revert"]) == (0, True)


def test_static_voters_hold_where_the_log_names_none() -> None:
    """KIP-853: kraft.version 0 is controller.quorum.voters."""
    one = One()
    assert ids(one) == (1, 2, 3)
    assert one.replica.kraft_version == 0


def test_a_set_with_directories_asks_for_that_very_one() -> None:
    """KIP-853: a voter is its id and its directory."""
    assert not One.dynamic(1, key=key(1, disk=1)).replica.is_voter
    assert not One.dynamic(1, key=ReplicaKey(1)).replica.is_voter
    assert One(key=key(1, disk=1)).replica.is_voter  # a static set names no directories


def test_a_removed_follower_stands_no_more() -> None:
    """KAFKA-17067: an observer never becomes prospective."""
    one = One.dynamic(1, election=ElectionState(1, 2), bootstrap=(endpoint(2),))
    one.fetched(voters_batch(0, keyed_voters(2, 3), 1))
    for _ in range(40):
        one.wait(1_000)
        assert one.replica.role == "follower"


def test_an_added_follower_may_stand() -> None:
    """KIP-853: as soon as the set with it is in its log."""
    one = One.dynamic(4, election=ElectionState(1, 2), bootstrap=(endpoint(2),))
    one.wait(4_000)
    assert one.replica.role == "follower"
    one.fetched(voters_batch(0, keyed_voters(1, 2, 3, 4), 1))
    one.wait(2_000)
    assert one.replica.role == "prospective"
    assert {s.peer for s in one.all if isinstance(s, fx.Send) and not s.peer < 0} == {1, 2, 3}


def test_what_an_observer_did_not_flush_is_flushed_when_it_becomes_a_voter() -> None:
    """A voter's fetch is a promise of durability for everything below it."""
    one = One.dynamic(4, election=ElectionState(1, 2), flush_before_fetch=False, auto_flush=False)
    one.fetched(Batch(0, 4, 1, 1, False, b""))
    assert one.of(fx.FlushLog) == []
    assert len(one.sends(FetchRequest)) == 1
    one.fetched(voters_batch(5, keyed_voters(1, 2, 3, 4), 1))
    assert one.of(fx.FlushLog) == [fx.FlushLog(6)] * len(one.of(fx.FlushLog)) != []
    assert one.sends(FetchRequest) == []
    one.step(inputs.LogFlushed(6))
    assert len(one.sends(FetchRequest)) == 1


def test_more_controls_than_records_are_not_believed() -> None:
    """A batch of one record cannot hold two: whoever says so is broken."""
    one = One.dynamic(1, election=ElectionState(1, 2))
    records = (Voters(keyed_voters(1, 2)), Voters(keyed_voters(1)))
    one.fetched(Batch(0, 0, 1, 1, True, b"", records))
    assert ids(one) == (1, 2, 3)
    assert one.replica.log_end_offset == 0


# ---------------------------------------------------------------- elections


def test_votes_are_asked_of_the_keys_in_the_set() -> None:
    """KIP-853, Vote: VoterId and VoterDirectoryId name whom it is addressed to."""
    one = One.dynamic()
    one.stand()
    asked = [s.request for s in one.sends(VoteRequest)]
    assert [r.voter for r in asked if isinstance(r, VoteRequest)] == [key(2), key(3)]


def test_a_vote_for_another_disk_is_refused() -> None:
    """KIP-853, Vote: INVALID_VOTER_KEY."""
    one = One.dynamic(1, key=key(1, disk=1))
    assert one.vote(2, 1, voter=key(1)).error is Error.INVALID_VOTER_KEY
    assert one.vote(2, 1, voter=key(1, disk=1)).granted


def test_an_announcement_to_another_disk_is_heard_and_refused() -> None:
    """KIP-853, BeginQuorumEpoch: the epoch counts, the address does not fit."""
    one = One.dynamic(1, key=key(1, disk=1))
    response = one.ask(BeginQuorumEpochRequest(2, 1, endpoint(2), key(1)))
    assert response.error is Error.INVALID_VOTER_KEY
    assert one.replica.leader_id == 2


def test_an_observer_grants_votes() -> None:
    """KIP-853: with a change under way only the candidate's log knows who is a voter."""
    assert One.dynamic(4).vote(1, 1).granted


def test_a_lone_voter_of_the_log_elects_itself() -> None:
    """KIP-595: one vote is a majority of one."""
    assert One.dynamic(voters=1).replica.role == "leader"


# ---------------------------------------------------------------- the start of an epoch


def test_the_first_leader_writes_the_voters_into_the_log() -> None:
    """Kafka 4.1, appendStartOfEpochControlRecords: one batch with what nobody can have yet."""
    one = One.dynamic()
    epoch = one.lead()
    change = LeaderChange(1, (1, 2, 3), (1, 2))
    records = (change, KRaftVersion(1), Voters(keyed_voters(1, 2, 3)))
    assert one.of(fx.AppendAsLeader) == [fx.AppendAsLeader(0, epoch, ControlRecords(records))]
    assert change.directory_ids == {}, "Kafka 4.1 reads version 0 only, and dies of version 1"
    assert one.replica.epoch_start == 0
    assert one.replica.log_end_offset == 3
    assert [t["off"] for t in one.traces("voters")] == [2]
    assert one.of(fx.VotersChanged) == []


def test_a_later_leader_writes_no_voters() -> None:
    """They are in the log."""
    one = One.dynamic(log=log_with(keyed_voters(1, 2, 3)))
    one.lead()
    (append,) = one.of(fx.AppendAsLeader)
    assert isinstance(append.content, ControlRecords)
    assert [type(r) for r in append.content.records] == [LeaderChange]


def test_a_leader_with_other_listeners_writes_its_entry() -> None:
    """KIP-853: a leader updates its own endpoints when its epoch starts."""
    moved = (*listeners(1), Listener("EXTRA", Endpoint("elsewhere", 9)))
    one = One.dynamic(log=log_with(keyed_voters(1, 2, 3)), listeners=moved)
    one.lead()
    (append,) = one.of(fx.AppendAsLeader)
    assert isinstance(append.content, ControlRecords)
    change, level, voters = append.content.records
    assert isinstance(change, LeaderChange)
    assert level == KRaftVersion(1)
    updated = Voter(key(1), endpoint(1), moved, KRAFT_VERSIONS)
    assert voters == Voters(keyed_voters(1, 2, 3).with_voter(updated))


def test_the_order_of_listeners_is_no_difference() -> None:
    """An entry that says the same is not written again."""
    extra = Listener("EXTRA", Endpoint("elsewhere", 9))
    entry = dataclasses.replace(keyed_voter(1), listeners=(extra, *listeners(1)))
    log = log_with(keyed_voters(1, 2, 3).with_voter(entry))
    one = One.dynamic(log=log, listeners=(*listeners(1), extra))
    one.lead()
    assert one.replica.log_end_offset == 2


def test_a_commit_covers_the_first_record_of_the_epoch() -> None:
    """KAFKA-12619: greater than the epoch's start, also where its first batch has three records."""
    one = One.dynamic()
    one.lead()
    one.fetch(2, 0, 0)
    assert one.replica.high_watermark is None
    one.fetch(2, START)
    assert one.replica.high_watermark == START


# ---------------------------------------------------------------- AddVoter


def add(one: One, node_id: int = 4, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "voter": key(node_id),
        "listeners": listeners(node_id),
        "timeout_ms": 1_000,
    } | more
    return one.ask(AddVoterRequest(cluster_id=CLUSTER_ID, **fields))


def caught_up(**more: Any) -> One:
    """A leader of three that node 4 has caught up with."""
    one = committed(**more)
    one.fetch(4, START)
    return one


def probe(one: One, versions: VersionRange | None = KRAFT_VERSIONS, **more: Any) -> fx.Send:
    """Let the new node answer what versions it supports."""
    send = one.sent(ProbeVersionsRequest)
    one.answer(send, ProbeVersionsResponse(more.get("error", Error.NONE), versions))
    return send


def answers(one: One) -> list[VoterChangeResponse]:
    """How voter changes ended in the last call."""
    responses = [e.response for e in one.of(fx.Reply)]
    return [r for r in responses if isinstance(r, VoterChangeResponse)]


def errors(one: One) -> list[Error]:
    return [r.error for r in answers(one)]


def test_a_new_voter_is_asked_for_its_versions_first() -> None:
    """KIP-853, AddVoter: ApiVersions at the new voter's default listener."""
    one = caught_up()
    assert add(one) is None
    (send,) = one.sends(ProbeVersionsRequest)
    assert send.endpoint == endpoint(4)
    assert send.peer < 0
    assert one.of(fx.AppendAsLeader) == []


def test_a_new_voter_is_added_to_the_set_and_counts_at_once() -> None:
    """KIP-853, AddVoter: appended, in force, and committed by the majority of the new set."""
    one = caught_up()
    add(one)
    probe(one)
    assert sent_voters(one) == keyed_voters(1, 2, 3, 4)
    assert ids(one) == (1, 2, 3, 4)
    one.fetch(2, START + 1)
    assert one.replica.high_watermark == START
    one.fetch(4, START + 1)
    assert one.replica.high_watermark == START + 1
    assert errors(one) == [Error.NONE]


def test_a_new_voter_brings_what_it_has_fetched() -> None:
    """Its progress as an observer counts for the new set."""
    one = committed(voters=1)
    one.fetch(2, START, connection=2)
    add(one, 2)
    probe(one)
    status = {v.key: v.log_end_offset for v in one.ask(DescribeQuorumRequest()).voters}
    assert status == {key(1): START + 1, key(2): START}


def test_adding_may_be_answered_when_it_is_appended() -> None:
    """KIP-853 v1, AckWhenCommitted=false."""
    one = caught_up()
    add(one, ack_when_committed=False)
    probe(one)
    assert errors(one) == [Error.NONE]
    assert one.replica.high_watermark == START


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"voter": ReplicaKey(4)}, Error.INVALID_REQUEST),
        ({"voter": ReplicaKey(-1, key(4).directory_id)}, Error.INVALID_REQUEST),
        ({"listeners": ()}, Error.INVALID_REQUEST),
        ({"listeners": (Listener("OTHER", endpoint(4)),)}, Error.INVALID_REQUEST),
        ({"voter": key(2)}, Error.DUPLICATE_VOTER),
        ({"voter": key(2, disk=1)}, Error.DUPLICATE_VOTER),
    ],
)
def test_what_an_addition_is_refused_for(more: dict[str, Any], error: Error) -> None:
    """KIP-853, AddVoter: the errors of its response."""
    one = caught_up()
    response = add(one, **more)
    assert response.error is error
    assert response.message
    assert one.of(fx.Send) == []


def test_a_change_for_another_cluster_is_refused() -> None:
    """KIP-853: INCONSISTENT_CLUSTER_ID."""
    one = committed()
    for request in (
        AddVoterRequest(key(4), listeners(4), 1, "other"),
        RemoveVoterRequest(key(2), "other"),
        UpdateVoterRequest(key(2), one.replica.epoch, listeners(2), KRAFT_VERSIONS, "other"),
    ):
        assert one.ask(request).error is Error.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("role", ["follower", "unattached", "resigned"])
def test_only_the_leader_changes_the_voters(role: str) -> None:
    """KIP-853: NOT_LEADER_OR_FOLLOWER, and who leads."""
    if role == "resigned":
        one = committed()
        one.step(inputs.Resign(one.replica.epoch))
    else:
        leader = 2 if role == "follower" else None
        one = One.dynamic(1, election=ElectionState(4, leader))
    assert one.replica.role == role
    assert add(one).error is Error.NOT_LEADER_OR_FOLLOWER
    assert remove(one, 2).error is Error.NOT_LEADER_OR_FOLLOWER
    response = update(one, 2)
    assert response.error is Error.NOT_LEADER_OR_FOLLOWER
    assert response.leader_id == one.replica.leader_id


def test_no_change_before_a_commit_of_the_epoch() -> None:
    """The bug of single-server changes: the previous leader's change must be out of the way."""
    one = One.dynamic()
    one.lead()
    for response in (add(one), remove(one, 2), update(one, 2)):
        assert response.error is Error.REQUEST_TIMED_OUT
    assert one.of(fx.AppendAsLeader) == []


def test_no_change_of_static_voters() -> None:
    """KIP-853: kraft.version 0 is UNSUPPORTED_VERSION."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    for response in (add(one), remove(one, 2)):
        assert response.error is Error.UNSUPPORTED_VERSION


def test_one_change_at_a_time() -> None:
    """KIP-853: others wait for the pending one."""
    one = caught_up()
    add(one)
    for response in (add(one, 5), remove(one, 2), update(one, 2)):
        assert response.error is Error.REQUEST_TIMED_OUT
    probe(one)
    for response in (add(one, 5), remove(one, 2), update(one, 2)):
        assert response.error is Error.REQUEST_TIMED_OUT


def test_no_change_while_the_last_one_is_uncommitted() -> None:
    """KIP-853: also when nobody waits for it any more."""
    one = caught_up()
    add(one, ack_when_committed=False)
    probe(one)
    for response in (add(one, 5), remove(one, 2), update(one, 2)):
        assert response.error is Error.REQUEST_TIMED_OUT
    one.fetch(2, START + 1)
    one.fetch(3, START + 1)
    assert one.replica.high_watermark == START + 1
    remove(one, 4)
    assert sent_voters(one) == keyed_voters(1, 2, 3)


def test_a_lagging_observer_is_not_added() -> None:
    """KIP-853, AddVoter: it must have caught up, or commits would wait for it."""
    one = committed()
    one.fetch(4, 0)
    add(one)
    probe(one)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]
    assert one.of(fx.AppendAsLeader) == []


def test_an_observer_that_fetches_no_more_is_not_added() -> None:
    """Kafka 4.1, isReplicaCaughtUp: within the last hour."""
    one = caught_up()
    for _ in range(1_242):
        one.wait(2_900)
        one.fetch(2, START)
    add(one)
    probe(one)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]


def test_an_observers_other_disk_is_not_the_one_that_caught_up() -> None:
    """KIP-853: progress belongs to id and directory."""
    one = caught_up()
    add(one, voter=key(4, disk=1))
    probe(one)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]


@pytest.mark.parametrize("versions", [None, STATIC_ONLY, VersionRange(2, 3)])
def test_a_voter_must_support_the_level_in_force(versions: VersionRange | None) -> None:
    """KIP-853, AddVoter: INVALID_REQUEST otherwise."""
    one = caught_up()
    add(one)
    probe(one, versions)
    assert errors(one) == [Error.INVALID_REQUEST]
    assert ids(one) == (1, 2, 3)


def test_a_node_that_does_not_tell_its_versions_is_not_added() -> None:
    """KIP-853, AddVoter: an error or no answer is REQUEST_TIMED_OUT."""
    one = caught_up()
    add(one)
    probe(one, error=Error.UNKNOWN_SERVER_ERROR)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]
    add(one)
    one.fail(one.sent(ProbeVersionsRequest))
    assert errors(one) == [Error.REQUEST_TIMED_OUT]
    add(one)
    one.wait(1_000)
    one.fetch(2, START)
    assert errors(one) == []
    one.wait(1_000)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]


def test_a_late_answer_belongs_to_no_later_request() -> None:
    """Every probe has its own number."""
    one = caught_up()
    add(one)
    first = one.sent(ProbeVersionsRequest)
    one.wait(2_000)
    add(one)
    one.answer(first, ProbeVersionsResponse(Error.NONE, KRAFT_VERSIONS))
    assert one.of(fx.AppendAsLeader) == []
    probe(one)
    assert sent_voters(one) == keyed_voters(1, 2, 3, 4)


def test_a_change_that_is_not_committed_in_time_is_answered_so() -> None:
    """KIP-853: REQUEST_TIMED_OUT; its record may still be committed."""
    one = caught_up()
    add(one)
    probe(one)
    one.wait(1_000)
    one.fetch(2, START)
    one.fetch(3, START)
    one.wait(1_000)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]
    assert ids(one) == (1, 2, 3, 4)


def test_a_pending_change_ends_with_the_leadership() -> None:
    """KIP-853: NOT_LEADER_OR_FOLLOWER; its outcome is not known."""
    one = caught_up()
    add(one)
    probe(one)
    one.step(inputs.Resign(one.replica.epoch))
    assert errors(one) == [Error.NOT_LEADER_OR_FOLLOWER]


# ---------------------------------------------------------------- RemoveVoter


def remove(one: One, node_id: int, disk: int = 0) -> Any:
    return one.ask(RemoveVoterRequest(key(node_id, disk), CLUSTER_ID))


def test_a_removed_voter_counts_no_more() -> None:
    """KIP-853, RemoveVoter: committed by the majority of the new set."""
    one = committed()
    assert remove(one, 3) is None
    assert sent_voters(one) == keyed_voters(1, 2)
    one.fetch(3, START + 1)
    assert one.replica.high_watermark == START
    one.fetch(2, START + 1)
    assert one.replica.high_watermark == START + 1
    assert errors(one) == [Error.NONE]


def test_a_removed_voter_is_still_served() -> None:
    """KIP-853: refusing it could wedge the change that removes it."""
    one = committed()
    remove(one, 3)
    response = one.fetch(3, START)
    assert response is not None
    assert response.error is Error.NONE
    assert response.records is not None
    described = one.ask(DescribeQuorumRequest())
    assert [s.key for s in described.observers] == [key(3)]


def test_a_removed_voter_keeps_no_leader() -> None:
    """KIP-853: nor does what it fetched before count any more."""
    one = committed(voters=5)
    one.fetch(2, START)
    one.fetch(3, START)
    one.wait(2_900)
    one.fetch(5, START)  # one more would restart the timer
    remove(one, 5)
    one.fetch(5, START + 1)
    one.wait(200)
    assert one.replica.role == "resigned"


def test_fewer_voters_may_have_committed_more() -> None:
    """The majority of the new set counts from the moment it is in force."""
    one = committed(voters=2)
    one.propose(2)
    assert one.replica.high_watermark == START
    remove(one, 2)
    assert one.replica.high_watermark == START + 3
    assert errors(one) == [Error.NONE]
    one.wait(60_000)
    assert one.replica.role == "leader"  # KAFKA-16144: a lone voter never resigns


def test_one_becomes_many_and_must_be_heard() -> None:
    """KAFKA-16144 the other way round: with a second voter check quorum begins."""
    one = committed(voters=1)
    one.fetch(2, START)
    add(one, 2)
    probe(one)
    one.wait(3_000)
    assert one.replica.role == "resigned"


@pytest.mark.parametrize("gone", [ReplicaKey(2), key(2, disk=1), key(9)])
def test_only_the_exact_key_is_removed(gone: ReplicaKey) -> None:
    """KIP-853, RemoveVoter: VOTER_NOT_FOUND; a key without a directory is no key."""
    one = committed()
    response = one.ask(RemoveVoterRequest(gone))
    known = Error.INVALID_REQUEST if gone.directory_id is None else Error.VOTER_NOT_FOUND
    assert response.error is known
    assert one.of(fx.AppendAsLeader) == []


def test_the_last_voter_is_not_removed() -> None:
    """Nobody could ever be elected again."""
    one = committed(voters=1)
    assert remove(one, 1).error is Error.INVALID_REQUEST
    assert ids(one) == (1,)


def test_a_leader_that_removes_itself_leads_uncounted_until_that_is_committed() -> None:
    """KIP-853, RemoveVoter: then it resigns, and tells the others."""
    one = committed()
    assert remove(one, 1) is None
    one.fetch(2, START + 1)
    assert one.replica.high_watermark == START  # its own log is not one of the two
    assert one.replica.is_leader
    one.propose(1)
    one.fetch(3, START + 1)
    assert one.replica.high_watermark == START + 1
    assert errors(one) == [Error.NONE]
    assert one.replica.role == "resigned"
    ended = [s.request for s in one.sends(EndQuorumEpochRequest)]
    assert [r.preferred for r in ended if isinstance(r, EndQuorumEpochRequest)] == [
        (key(2), key(3)),
        (key(2), key(3)),
    ]
    one.wait(2_000)
    assert one.replica.role == "unattached"
    one.wait(60_000)
    assert one.replica.role == "unattached"


def test_a_leader_out_of_its_set_needs_a_majority_of_others() -> None:
    """KAFKA-16531: it does not count itself for check quorum."""
    one = committed()
    remove(one, 1)
    for _ in range(3):
        one.wait(1_000)
        one.fetch(2, START)
    assert one.replica.role == "resigned"


def test_a_leader_out_of_its_set_describes_itself_as_an_observer() -> None:
    """KIP-836: voters are those in force."""
    one = committed()
    remove(one, 1)
    described = one.ask(DescribeQuorumRequest())
    assert [s.key for s in described.voters] == [key(2), key(3)]
    assert [s.key for s in described.observers] == [key(1)]


def test_a_removal_that_timed_out_still_ends_the_leadership() -> None:
    """KRaft S30: whoever asked for it has gone, and still it is committed."""
    one = committed()
    remove(one, 1)
    one.wait(1_500)
    one.fetch(2, START)
    one.fetch(3, START)
    one.wait(1_000)
    assert errors(one) == [Error.REQUEST_TIMED_OUT]
    one.fetch(2, START + 1)
    one.fetch(3, START + 1)
    assert one.replica.role == "resigned"


# ---------------------------------------------------------------- UpdateVoter


def update(one: One, node_id: int, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "voter": key(node_id),
        "epoch": one.replica.epoch,
        "listeners": (*listeners(node_id), Listener("EXTRA", endpoint(9))),
        "kraft_versions": KRAFT_VERSIONS,
    } | more
    return one.ask(UpdateVoterRequest(**fields))


def test_a_voters_entry_is_updated() -> None:
    """KIP-853, UpdateVoter: appended, and answered without waiting for the commit."""
    one = committed()
    response = update(one, 2)
    assert (response.error, response.leader_id) == (Error.NONE, 1)
    entry = sent_voters(one).voters[2]
    assert entry.listeners == (*listeners(2), Listener("EXTRA", endpoint(9)))
    assert entry.key == key(2)
    assert one.of(fx.VotersChanged) != []


def test_the_leader_speaks_to_the_updated_endpoint() -> None:
    """KIP-853: the endpoints of the set in force."""
    one = committed()
    for effect in list(one.all):
        if isinstance(effect, fx.Send) and isinstance(effect.request, BeginQuorumEpochRequest):
            one.heard(effect)
    moved = Endpoint("elsewhere", 7)
    update(one, 2, listeners=(Listener("OTHER", endpoint(2)), Listener("CONTROLLER", moved)))
    one.wait(1_000)
    begun = {s.peer: s.endpoint for s in one.sends(BeginQuorumEpochRequest)}
    assert begun[2] == moved


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"epoch": 0}, Error.FENCED_LEADER_EPOCH),
        ({"epoch": 9}, Error.UNKNOWN_LEADER_EPOCH),
        ({"voter": ReplicaKey(2)}, Error.INVALID_REQUEST),
        ({"kraft_versions": STATIC_ONLY}, Error.INVALID_REQUEST),
        ({"listeners": (Listener("EXTRA", endpoint(2)),)}, Error.INVALID_REQUEST),
        ({"voter": key(2, disk=1)}, Error.VOTER_NOT_FOUND),
        ({"voter": key(9)}, Error.VOTER_NOT_FOUND),
    ],
)
def test_what_an_update_is_refused_for(more: dict[str, Any], error: Error) -> None:
    """KIP-853, UpdateVoter: the errors of its response."""
    one = committed()
    assert update(one, 2, **more).error is error
    assert one.of(fx.AppendAsLeader) == []


def outdated() -> One:
    """A follower with a listener that its entry in the voter set lacks."""
    more = (*listeners(1), Listener("EXTRA", endpoint(9)))
    return One.dynamic(1, election=ElectionState(1, 2), listeners=more)


def until_update(one: One) -> int:
    """Fetch until the follower asks for an update of its entry; gives the time that took."""
    began_ms = one.now_ms
    while not one.sends(UpdateVoterRequest):
        one.wait(100)
        one.fetched(hwm=0)
        assert one.now_ms < began_ms + 20_000
    return one.now_ms - began_ms


def test_a_voter_tells_its_leader_when_its_entry_is_outdated() -> None:
    """Kafka 4.1, pollFollowerAsVoter: after three fetch timeouts, and again as long as it is."""
    one = outdated()
    assert until_update(one) == 6_000
    request = one.sent(UpdateVoterRequest).request
    assert isinstance(request, UpdateVoterRequest)
    assert (request.voter, request.epoch) == (key(1), 1)
    assert request.listeners == (*listeners(1), Listener("EXTRA", endpoint(9)))
    one.answer(one.sent(UpdateVoterRequest), VoterChangeResponse(Error.NONE, 1, 2))
    assert len(one.sends(FetchRequest)) == 1
    assert until_update(one) == 6_000


@pytest.mark.parametrize("error", [Error.REQUEST_TIMED_OUT, Error.UNSUPPORTED_VERSION])
def test_a_refused_update_does_not_keep_it_from_fetching(error: Error) -> None:
    """Kafka 4.1: the next try comes after the period."""
    one = outdated()
    until_update(one)
    one.answer(one.sent(UpdateVoterRequest), VoterChangeResponse(error, 1, 2))
    one.wait(20)
    assert len(one.sends(FetchRequest)) == 1


@pytest.mark.parametrize("kind", ["current", "observer", "static observer", "no listeners"])
def test_nobody_else_asks_for_an_update(kind: str) -> None:
    """Kafka 4.1: only a voter whose entry is another, or one of a static quorum."""
    extra = (Listener("EXTRA", endpoint(9)),)
    if kind == "current":
        one = One.dynamic(1, election=ElectionState(1, 2))
    elif kind == "observer":
        one = One.dynamic(4, election=ElectionState(1, 2), listeners=extra)
    elif kind == "static observer":
        one = One(4, election=ElectionState(1, 2), listeners=extra)
    else:
        one = One(1, election=ElectionState(1, 2))
    for _ in range(200):
        one.wait(100)
        one.fetched(hwm=0)
    assert not [
        e
        for e in one.all
        if isinstance(e, fx.Send) and e.peer == 2 and isinstance(e.request, UpdateVoterRequest)
    ]


# ---------------------------------------------------------------- ApiVersions, being asked


def test_a_node_tells_its_versions() -> None:
    """KIP-853: what a leader asks before it makes this node a voter."""
    response = One.dynamic(4).ask(ProbeVersionsRequest())
    assert response == ProbeVersionsResponse(Error.NONE, KRAFT_VERSIONS)
