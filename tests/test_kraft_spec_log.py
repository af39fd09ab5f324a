"""One test per sentence of the KRaft proposals about the log: leading, fetching, reading.

Elections and roles are in ``test_kraft_spec``; the sources are named in the same way.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from raft_one import CLUSTER_ID, One, batch, endpoint, log_of

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    Error,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    QuorumEpochResponse,
)
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey, Voter, VoterSet

DISK_A, DISK_B = UUID(int=0xA), UUID(int=0xB)


# ---------------------------------------------------------------- KIP-595: leading


def test_the_first_record_of_an_epoch_is_a_leader_change() -> None:
    """KIP-595, LeaderChangeMessage: written by the new leader at the start of its epoch."""
    one = One(election=ElectionState(3), log=log_of((3, 0), end=8))
    epoch = one.lead()
    assert one.of(fx.AppendAsLeader) == [
        fx.AppendAsLeader(8, epoch, LeaderChange(1, (1, 2, 3), (1, 2)))
    ]
    assert one.of(fx.LeadershipAcquired) == [fx.LeadershipAcquired(epoch, 8)]
    assert one.replica.epoch_start == 8


def test_each_proposed_operation_is_one_batch() -> None:
    """KIP-595: an atomic append is one batch, at the log end, in one flush with the others."""
    one = One(auto_flush=False)
    epoch = one.lead()
    one.propose(2, 3)
    appends = one.of(fx.AppendAsLeader)
    assert [(a.base_offset, a.epoch) for a in appends] == [(1, epoch), (3, epoch)]
    assert one.of(fx.ProposalAccepted) == [fx.ProposalAccepted(77, 1, 5)]
    assert one.of(fx.FlushLog) == [fx.FlushLog(6)]


@pytest.mark.parametrize("epoch_shift", [-1, 1])
def test_a_proposal_of_another_epoch_is_refused(epoch_shift: int) -> None:
    """KIP-595, scheduleAppend: the epoch must be the leader's."""
    one = One()
    epoch = one.lead()
    one.propose(1, epoch=epoch + epoch_shift)
    assert one.of(fx.AppendAsLeader) == []
    assert one.of(fx.ProposalRejected) == [fx.ProposalRejected(77, 1)]


def test_only_the_leader_accepts_proposals() -> None:
    """KIP-595: a follower points to the leader."""
    one = One()
    one.begin(2, 1)
    one.propose(1)
    assert one.of(fx.ProposalRejected) == [fx.ProposalRejected(77, 2)]


def test_a_leader_without_a_fetching_majority_resigns() -> None:
    """KAFKA-15489: check quorum, 1.5 x the fetch timeout."""
    one = One()
    one.lead()
    one.wait(2_999)
    assert one.replica.is_leader
    one.wait(1)
    assert one.replica.role == "resigned"


def test_fetches_of_a_majority_keep_the_leader() -> None:
    """KAFKA-15489: with itself, one of two others is enough."""
    one = One()
    one.lead()
    for _ in range(5):
        one.wait(2_000)
        one.fetch(2, 1, wait_ms=0)
    assert one.replica.is_leader


def test_observers_do_not_keep_the_leader() -> None:
    """KIP-853: only voters count for check quorum."""
    one = One()
    one.lead()
    one.wait(2_000)
    one.fetch(9, 1, wait_ms=0)
    one.wait(1_000)
    assert one.replica.role == "resigned"


def test_a_lone_voter_never_resigns() -> None:
    """KAFKA-16144: it is its own majority."""
    one = One(voters=1)
    assert one.replica.is_leader
    one.wait(100_000)
    assert one.replica.is_leader


# ---------------------------------------------------------------- KIP-595: Fetch, leader side


@pytest.mark.parametrize(
    ("epoch_shift", "error"),
    [(-1, Error.FENCED_LEADER_EPOCH), (1, Error.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch_is_refused(epoch_shift: int, error: Error) -> None:
    """KIP-595, Fetch: the epochs of follower and leader must be the same."""
    one = One()
    epoch = one.lead()
    response = one.fetch(2, 0, epoch=epoch + epoch_shift)
    assert response is not None
    assert (response.error, response.epoch, response.leader_id) == (error, epoch, 1)
    assert one.replica.is_leader


def test_only_the_leader_serves_fetches() -> None:
    """KIP-595, Fetch: NOT_LEADER_OR_FOLLOWER, with the leader if it is known."""
    one = One()
    one.begin(2, 1)
    response = one.fetch(3, 0)
    assert response is not None
    assert response.error is Error.NOT_LEADER_OR_FOLLOWER
    assert (response.leader_id, response.leader_endpoint) == (2, endpoint(2))


@pytest.mark.parametrize(("offset", "last_epoch"), [(-1, 0), (0, -1), (3, 99)])
def test_impossible_fetches_are_invalid(offset: int, last_epoch: int) -> None:
    """KIP-595, Fetch: negative values or a last epoch beyond the current one."""
    one = One()
    one.lead()
    response = one.fetch(2, offset, last_epoch)
    assert response is not None
    assert response.error is Error.INVALID_REQUEST


def test_uncommitted_records_are_served() -> None:
    """KIP-595, Fetch: a replica reads up to the log end, not up to the high watermark."""
    one = One()
    one.lead()
    response = one.fetch(2, 0)
    assert response is not None
    assert response.records is not None
    assert (response.records.offset, response.high_watermark) == (0, None)


def test_a_diverging_log_is_told_where_its_epoch_ended() -> None:
    """KIP-595, Fetch: DivergingEpoch, the largest epoch not beyond the fetcher's, and its end."""
    one = One(election=ElectionState(6), log=log_of((1, 0), (4, 5), end=9))
    one.lead()
    for offset, last_epoch, expected in [
        (7, 3, OffsetAndEpoch(5, 1)),
        (9, 1, OffsetAndEpoch(5, 1)),
        (11, 4, OffsetAndEpoch(9, 4)),
        (9, 6, OffsetAndEpoch(9, 4)),
    ]:
        response = one.fetch(2, offset, last_epoch)
        assert response is not None
        assert response.diverging == expected
        assert response.records is None


def test_a_diverging_fetch_commits_nothing() -> None:
    """KIP-595, Fetch: only a valid fetch offset is progress."""
    one = One(election=ElectionState(6), log=log_of((1, 0), (4, 5), end=9))
    one.lead()
    one.fetch(2, 50, 4)
    assert one.replica.high_watermark is None


def test_a_fetch_at_the_end_waits_for_records() -> None:
    """KIP-595, Fetch: a long poll, answered as soon as there is something."""
    one = One()
    one.lead()
    assert one.fetch(2, 1) is None
    token = one.token
    one.propose(1)
    (reply,) = one.of(fx.Reply)
    assert reply.token == token
    assert isinstance(reply.response, FetchResponse)
    assert reply.response.records is not None


def test_parked_fetches_are_woken_before_the_flush() -> None:
    """KIP-595: followers copy while the leader flushes."""
    one = One(auto_flush=False)
    one.lead()
    one.step(inputs.LogFlushed(1))
    one.fetch(2, 1)
    one.propose(1)
    assert one.index(fx.AppendAsLeader) < one.index(fx.Reply) < one.index(fx.FlushLog)


def test_a_parked_fetch_is_answered_empty_when_its_time_is_up() -> None:
    """KIP-595, Fetch: MaxWaitMs."""
    one = One()
    one.lead()
    one.fetch(2, 1, wait_ms=500)
    one.wait(499)
    assert one.of(fx.Reply) == []
    one.wait(1)
    (reply,) = one.of(fx.Reply)
    assert isinstance(reply.response, FetchResponse)
    assert (reply.response.error, reply.response.records) == (Error.NONE, None)


def test_parked_fetches_are_refused_when_the_leader_resigns() -> None:
    """KAFKA-10677: nobody may wait for a leader that is none."""
    one = One()
    epoch = one.lead()
    one.fetch(2, 1)
    one.step(inputs.Resign(epoch))
    (reply,) = one.of(fx.Reply)
    assert isinstance(reply.response, FetchResponse)
    assert reply.response.error is Error.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_knows_an_older_high_watermark_is_answered_at_once() -> None:
    """KIP-1166: the follower sends the high watermark that it knows."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    assert one.replica.high_watermark == 1
    response = one.fetch(3, 1, hwm=0)
    assert response is not None
    assert response.high_watermark == 1
    assert one.fetch(3, 1, hwm=1) is None


def test_a_parked_fetch_is_woken_by_the_high_watermark() -> None:
    """KIP-1166: it does not wait for records or time to learn of a commit."""
    one = One(voters=5)
    one.lead()
    assert one.fetch(2, 1, hwm=0) is None
    token = one.token
    assert one.fetch(4, 1) is None  # an old fetcher: never woken by it
    assert token in [r.token for r in one.of(fx.Reply)]
    assert one.token not in [r.token for r in one.of(fx.Reply)]


def test_a_fetch_offset_may_go_backward() -> None:
    """KAFKA-12181: a follower that lost its disk must be served, and nothing is uncommitted."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    response = one.fetch(2, 0)
    assert response is not None
    assert response.error is Error.NONE
    assert one.replica.high_watermark == 1


# ---------------------------------------------------------------- KIP-595: high watermark


def test_the_high_watermark_is_the_majority_of_end_offsets() -> None:
    """KIP-595: the largest offset that a majority of the voters has reached."""
    one = One(voters=5)
    one.lead()
    one.propose(4)
    seen = []
    for replica, offset in [(2, 3), (3, 5), (4, 5)]:
        one.fetch(replica, offset, 1)
        seen.append(one.replica.high_watermark)
    assert seen == [None, 3, 5]


def test_only_records_of_the_own_epoch_commit_by_counting() -> None:
    """KIP-595: the high watermark is not exposed before it exceeds the epoch's start offset."""
    one = One(election=ElectionState(3), log=log_of((3, 0), end=8))
    one.lead()
    one.fetch(2, 8, 3)
    assert one.replica.high_watermark is None
    one.fetch(2, 9)
    assert one.replica.high_watermark == 9


def test_observers_do_not_move_the_high_watermark() -> None:
    """KIP-595: only voters count."""
    one = One()
    one.lead()
    one.fetch(9, 1)
    assert one.replica.high_watermark is None


def test_a_replica_that_claims_the_leaders_id_is_not_counted() -> None:
    """KIP-853: the leader knows its own disk and believes nobody about it."""
    one = One()
    one.lead()
    one.propose(1)
    one.fetch(1, 2, wait_ms=0)
    assert one.replica.high_watermark is None


def test_another_disk_of_a_voter_is_not_counted() -> None:
    """KIP-853: progress is that of a replica key; a replaced disk is an observer."""
    voters = VoterSet.of(
        *(Voter(ReplicaKey(i, DISK_A), endpoint(i)) for i in (1, 2, 3)),
    )
    one = One(key=ReplicaKey(1, DISK_A), voter_set_=voters)
    epoch = one.lead()
    for disk, committed in [(DISK_B, None), (DISK_A, 1)]:
        one.ask(FetchRequest(ReplicaKey(2, disk), epoch, 1, epoch, 0, 1_000))
        assert one.replica.high_watermark == committed


def test_the_leader_counts_itself_only_up_to_what_it_flushed() -> None:
    """RaftFsync: Kafka flushes in the same thread; here it must be waited for."""
    one = One(auto_flush=False)
    one.lead()
    one.fetch(2, 1)
    assert one.replica.high_watermark is None
    one.step(inputs.LogFlushed(1))
    assert one.replica.high_watermark == 1


def test_a_commit_is_traced_before_it_is_exposed() -> None:
    """The trace is written before the effect that it describes."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    assert one.traces("hwm") == [
        {"v": 1, "as": "leader", "acks": {"1": 1, "2": 1, "3": None}, "voters": [1, 2, 3]}
    ]
    assert one.index(fx.Trace) < one.index(fx.HighWatermarkAdvanced)


# ---------------------------------------------------------------- KIP-595: Fetch, follower side


def follower(**kwargs: object) -> One:
    """Replica 1 of three, following 2 in epoch 5."""
    one = One(election=ElectionState(5, 2), **kwargs)  # type: ignore[arg-type]
    assert one.replica.role == "follower"
    return one


def test_a_follower_fetches_at_its_log_end() -> None:
    """KIP-595, Fetch: at the log end offset, with the epoch of the last record."""
    one = follower(log=log_of((1, 0), (4, 5), end=9))
    assert one.sent(FetchRequest).request == FetchRequest(
        ReplicaKey(1), 5, 9, 4, 500, 8 << 20, high_watermark=0, cluster_id=CLUSTER_ID
    )


def test_fetched_records_are_on_disk_before_the_next_fetch() -> None:
    """KIP-595: a voter's fetch offset is a promise of durability."""
    one = follower(auto_flush=False)
    one.fetched(batch(0, 1, 5))
    assert one.of(fx.FlushLog) == [fx.FlushLog(2)]
    assert one.sends(FetchRequest) == []
    one.step(inputs.LogFlushed(2))
    assert [s.request.offset for s in one.sends(FetchRequest)] == [2]  # type: ignore[union-attr]


def test_an_observer_that_is_no_controller_does_not_flush() -> None:
    """KAFKA-17332: brokers do not fsync each fetch."""
    one = One(9, election=ElectionState(5, 2), flush_before_fetch=False, auto_flush=False)
    one.fetched(batch(0, 1, 5))
    assert one.of(fx.FlushLog) == []
    assert len(one.sends(FetchRequest)) == 1


def test_there_is_one_fetch_in_flight_at_most() -> None:
    """Kafka 4.x: two fetches would append the same offsets twice."""
    one = follower(bootstrap=tuple(endpoint(i) for i in (1, 2, 3)))
    for _ in range(100):
        one.wait(10)
        assert one.sends(FetchRequest) == []


def test_a_follower_truncates_to_the_diverging_epoch() -> None:
    """KIP-595, Fetch: it cuts its log to the end of the largest common epoch and fetches again."""
    one = follower(log=log_of((1, 0), (3, 4), end=9))
    one.fetched(diverging=OffsetAndEpoch(6, 1))
    assert one.of(fx.TruncateLog) == [fx.TruncateLog(4)]
    assert one.sent(FetchRequest).request.offset == 4  # type: ignore[union-attr]
    assert one.traces("trunc")[0]["was"] == 9


@pytest.mark.parametrize(
    ("diverging", "to"),
    [
        (OffsetAndEpoch(7, 3), 7),
        (OffsetAndEpoch(20, 3), 9),
        (OffsetAndEpoch(7, 2), 4),
        (OffsetAndEpoch(2, 1), 2),
        (OffsetAndEpoch(0, 0), 0),
        (OffsetAndEpoch(5, 0), 5),
    ],
)
def test_where_a_follower_truncates(diverging: OffsetAndEpoch, to: int) -> None:
    """KIP-595, Fetch: the smaller of both ends of that epoch, or the end of the one below."""
    one = follower(log=log_of((1, 0), (3, 4), end=9))
    one.fetched(diverging=diverging)
    assert one.of(fx.TruncateLog) == [fx.TruncateLog(to)]
    assert one.replica.log_end_offset == to


def test_truncating_below_the_high_watermark_is_fatal() -> None:
    """KAFKA-12460: a committed record must never go; something is broken beyond repair."""
    one = follower()
    one.fetched(batch(0, 4, 5), hwm=5)
    one.fetched(diverging=OffsetAndEpoch(3, 5))
    assert len(one.of(fx.Fatal)) == 1
    assert one.of(fx.TruncateLog) == []
    assert one.wait(10_000) == []
    assert one.replica.next_deadline_ms() is None


def test_batches_of_a_newer_epoch_are_dropped_with_all_after_them() -> None:
    """KAFKA-18723: the leader's bytes may race its own truncation."""
    one = follower()
    one.fetched(batch(0, 1, 4), batch(2, 2, 6), batch(3, 3, 5))
    assert one.of(fx.AppendBatches) == [fx.AppendBatches((batch(0, 1, 4),))]
    assert one.replica.log_end_offset == 2


@pytest.mark.parametrize(
    "bad", [batch(5, 6, 5), batch(0, 3, 5), batch(2, 1, 5), batch(2, 3, 3)], ids=str
)
def test_batches_that_do_not_continue_the_log_are_dropped(bad: object) -> None:
    """KIP-595, Fetch: offsets are contiguous, epochs never fall; nothing else enters the log."""
    one = follower(log=log_of((4, 0), end=2))
    one.fetched(bad)  # type: ignore[arg-type]
    assert one.of(fx.AppendBatches) == []
    assert one.of(fx.Fatal) == []
    assert one.sends(FetchRequest) == []
    one.wait(20)
    assert len(one.sends(FetchRequest)) == 1


def test_a_follower_learns_the_high_watermark_up_to_its_own_end() -> None:
    """KIP-595: the smaller of the leader's high watermark and its own log end."""
    one = follower()
    one.fetched(batch(0, 1, 5), hwm=9)
    assert one.of(fx.HighWatermarkAdvanced) == [fx.HighWatermarkAdvanced(2)]


def test_a_followers_high_watermark_never_falls() -> None:
    """KIP-595: a new leader may not know it yet."""
    one = follower()
    one.fetched(batch(0, 1, 5), hwm=2)
    one.fetched(hwm=1)
    assert one.replica.high_watermark == 2
    assert one.of(fx.HighWatermarkAdvanced) == []


def test_a_successful_fetch_restarts_the_fetch_timer() -> None:
    """KIP-595, Follower: an election is due when no fetch succeeds within the fetch timeout."""
    one = follower()
    one.wait(1_900)
    one.fetched()
    one.wait(1_900)
    assert one.replica.role == "follower"
    one.wait(100)
    assert one.replica.role == "prospective"


def test_a_refused_fetch_does_not_restart_the_fetch_timer() -> None:
    """KIP-595, Follower: only success counts."""
    one = follower()
    one.wait(1_900)
    one.fetched(error=Error.NOT_LEADER_OR_FOLLOWER)
    one.wait(100)
    assert one.replica.role == "prospective"


def test_a_follower_of_a_silent_leader_asks_the_bootstrap_servers() -> None:
    """KAFKA-17030: voters, too, ask for the leader."""
    one = follower(bootstrap=tuple(endpoint(i) for i in (1, 2, 3)))
    one.fail(one.sent(FetchRequest))
    assert one.sends(FetchRequest) == []
    one.wait(20)
    one.fail(one.sent(FetchRequest))
    (send,) = one.sends(FetchRequest)
    assert send.peer < 0
    assert send.endpoint in (endpoint(2), endpoint(3))


def test_an_observer_never_stands() -> None:
    """KIP-595, Observer: it does not take part in elections."""
    one = One(9, bootstrap=(endpoint(1),))
    one.wait(100_000)
    assert one.replica.role == "unattached"
    one.begin(2, 1)
    one.wait(100_000)
    assert (one.replica.role, one.replica.epoch) == ("follower", 1)


def test_an_observer_finds_the_leader_by_a_refused_fetch() -> None:
    """KIP-595, Observer: any bootstrap server names the leader and its endpoint."""
    one = One(9, bootstrap=(endpoint(1),))
    send = one.sent(FetchRequest)
    one.answer(
        send,
        FetchResponse(Error.FENCED_LEADER_EPOCH, 4, 2, leader_endpoint=endpoint(2)),
    )
    assert (one.replica.role, one.replica.epoch, one.replica.leader_id) == ("follower", 4, 2)
    assert [s.peer for s in one.sends(FetchRequest)] == [2]


# ---------------------------------------------------------------- responses in general


def test_a_response_of_an_older_epoch_is_ignored() -> None:
    """KIP-595: stale answers change nothing."""
    one = follower()
    one.fetched(batch(0, 0, 4), epoch=4)
    assert one.replica.log_end_offset == 0
    assert one.replica.epoch == 5


def test_a_response_of_a_newer_epoch_moves_the_receiver() -> None:
    """KIP-595: to follower when it names the leader, else to unattached."""
    one = follower()
    one.fetched(error=Error.FENCED_LEADER_EPOCH, epoch=7, leader=3)
    assert (one.replica.role, one.replica.epoch, one.replica.leader_id) == ("follower", 7, 3)


def test_unknown_leader_epoch_changes_nothing() -> None:
    """KIP-595, error codes: the other side is behind; retry later."""
    one = follower()
    one.fetched(error=Error.UNKNOWN_LEADER_EPOCH, epoch=3)
    assert (one.replica.role, one.replica.epoch) == ("follower", 5)
    assert one.sends(FetchRequest) == []


def test_an_answer_nobody_waits_for_is_ignored() -> None:
    """Kafka RequestManager: a response must match the request in flight."""
    one = follower()
    send = one.sent(FetchRequest)
    for peer, correlation in [(2, send.correlation + 1), (3, send.correlation)]:
        response = FetchResponse(Error.NONE, 9, 3, batches=(batch(0, 0, 5),))
        one.step(inputs.ResponseReceived(peer, correlation, response))
        assert (one.replica.epoch, one.replica.log_end_offset) == (5, 0)


def test_being_told_to_lead_a_newer_epoch_only_forbids_voting_in_it() -> None:
    """A replica that lost its disk is named as leader: it must not vote in that epoch."""
    one = follower()
    one.fetched(error=Error.FENCED_LEADER_EPOCH, epoch=8, leader=1)
    assert (one.replica.role, one.replica.epoch) == ("unattached", 8)
    assert not one.vote(2, 8, 99, 7).granted


def test_a_response_of_an_impossible_epoch_is_ignored() -> None:
    """Hostile input: no epoch may follow it, so it is nobody's."""
    one = follower()
    one.fetched(error=Error.FENCED_LEADER_EPOCH, epoch=2**40, leader=3)
    assert one.replica.epoch == 5


def test_the_answer_to_a_begin_of_a_newer_epoch_ends_the_leadership() -> None:
    """KIP-595, BeginQuorumEpoch: FENCED_LEADER_EPOCH tells the leader of its successor."""
    one = One()
    epoch = one.lead()
    send = one.sent(BeginQuorumEpochRequest)
    one.answer(send, QuorumEpochResponse(Error.FENCED_LEADER_EPOCH, epoch + 2, 3))
    assert (one.replica.role, one.replica.leader_id) == ("follower", 3)


# ---------------------------------------------------------------- DescribeQuorum


def test_only_the_leader_describes_the_quorum() -> None:
    """KIP-595, DescribeQuorum: NOT_LEADER_OR_FOLLOWER from others."""
    assert One().ask(DescribeQuorumRequest()).error is Error.NOT_LEADER_OR_FOLLOWER


def test_the_quorum_is_described_with_its_observers() -> None:
    """KIP-836, DescribeQuorum: end offsets and times of voters and of observers that fetch."""
    one = One()
    one.lead()
    one.fetch(2, 1, wait_ms=0)
    one.fetch(9, 0, wait_ms=0)
    one.fetch(-1, 0, wait_ms=0)
    response = one.ask(DescribeQuorumRequest())
    assert [(v.key.id, v.log_end_offset) for v in response.voters] == [(1, 1), (2, 1), (3, None)]
    assert [(o.key.id, o.log_end_offset) for o in response.observers] == [(9, 0)]
    assert response.voters[1].last_caught_up_ms == one.now_ms
    one.fetch(2, 1, wait_ms=0)
    one.wait(2_900)
    one.fetch(2, 1, wait_ms=0)
    one.now_ms += 300_001 - 2_900
    assert one.ask(DescribeQuorumRequest()).observers == ()


# ---------------------------------------------------------------- read barrier


def test_a_read_needs_fetches_begun_after_it() -> None:
    """Raft thesis 6.4: leadership is confirmed by messages exchanged after the read came."""
    one = One()
    one.lead()
    one.fetch(2, 1)  # parked: begun before the read
    one.step(inputs.ReadBarrier(5))
    assert len(one.of(fx.Reply)) == 1
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 1)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_a_first_fetch_of_a_connection_proves_nothing() -> None:
    """It may have been under way for long; only a reply orders it after the read."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    one.step(inputs.ReadBarrier(5))
    one.fetch(2, 1, connection=99)
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 1, connection=99)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_observers_confirm_no_read() -> None:
    """Only a majority of voters excludes another leader."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    one.fetch(9, 1)
    one.step(inputs.ReadBarrier(5))
    for _ in range(3):
        one.fetch(9, 1, wait_ms=0)
    assert not [e for e in one.all if isinstance(e, fx.BarrierConfirmed)]


def test_a_read_waits_for_the_first_commit_of_the_epoch() -> None:
    """Raft thesis 6.4: before it the leader does not know what is committed."""
    one = One(election=ElectionState(3), log=log_of((3, 0), end=8))
    one.lead()
    one.fetch(2, 8, 3)
    one.step(inputs.ReadBarrier(5))
    one.fetch(2, 8, 3)
    assert one.of(fx.BarrierConfirmed) == []
    one.fetch(2, 9)
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 9)]


def test_a_lone_voter_confirms_reads_at_once() -> None:
    """It is the majority."""
    one = One(voters=1)
    one.step(inputs.ReadBarrier(5))
    assert one.of(fx.BarrierConfirmed) == [fx.BarrierConfirmed(5, 1)]


def test_reads_fail_with_the_leadership() -> None:
    """The read must go elsewhere."""
    one = One()
    epoch = one.lead()
    one.step(inputs.ReadBarrier(5))
    one.begin(3, epoch + 1)
    assert one.of(fx.BarrierFailed) == [fx.BarrierFailed(5, 3)]
    one.step(inputs.ReadBarrier(6))
    assert one.of(fx.BarrierFailed) == [fx.BarrierFailed(6, 3)]


def test_reads_share_a_round() -> None:
    """Many reads cost no more than one."""
    one = One()
    one.lead()
    one.fetch(2, 1)
    for token in (5, 6, 7):
        one.step(inputs.ReadBarrier(token))
    one.fetch(2, 1)  # its predecessor was answered for 5 only: this one is answered at once
    one.fetch(2, 1)
    confirmed = [e.token for e in one.all if isinstance(e, fx.BarrierConfirmed)]
    assert confirmed == [5, 6, 7]
