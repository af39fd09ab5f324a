"""One test per sentence of the KRaft proposals about leading.

Elections and roles are in ``test_kraft_spec``, following in ``test_kraft_spec_follower``; the
sources are named in the same way.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    ControlRecords,
    DescribeQuorumRequest,
    Error,
    FetchRequest,
    FetchResponse,
    LeaderChange,
)
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey, Voter, VoterSet
from tests.support.raft.one import One, endpoint, log_of

DISK_A, DISK_B = UUID(int=0xA), UUID(int=0xB)


# ---------------------------------------------------------------- KIP-595: leading


def test_the_first_record_of_an_epoch_is_a_leader_change() -> None:
    """KIP-595, LeaderChangeMessage: written by the new leader at the start of its epoch."""
    one = One(election=ElectionState(3), log=log_of((3, 0), end=8))
    epoch = one.lead()
    assert one.of(fx.AppendAsLeader) == [
        fx.AppendAsLeader(8, epoch, ControlRecords((LeaderChange(1, (1, 2, 3), (1, 2)),)))
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


def test_who_keeps_the_leader_is_traced_now_and_then() -> None:
    """KRaft S29: by key, and since when; with three voters each fetch is a majority."""
    one = One.dynamic()
    one.lead()
    told = []
    for _ in range(10):
        one.wait(250)
        one.fetch(2, 2, wait_ms=0)
        told += one.traces("quorum")
    dirs = one.key_of(2).directory_id
    assert dirs is not None
    assert [(t["ok"], t["heard"], t["quorum_ms"]) for t in told] == 3 * [
        (True, [(2, dirs.hex, 0)], 3000)
    ]
    assert [t["since_ms"] for t in told] == [250, 250, 250]


def test_who_has_not_kept_the_leader_is_traced_as_it_resigns() -> None:
    """KAFKA-15489: who was silent for how long."""
    one = One()
    one.lead()
    one.fetch(3, 1, wait_ms=0)
    one.wait(3_000)
    assert one.replica.role == "resigned"
    assert one.traces("quorum") == [
        {
            "ok": False,
            "heard": [(2, None, None), (3, None, 3000)],
            "since_ms": 3000,
            "quorum_ms": 3000,
        }
    ]


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
        {
            "v": 1,
            "as": "leader",
            "acks": [(1, None, 1), (2, None, 1), (3, None, None)],
            "voters": [1, 2, 3],
        }
    ]
    assert one.index(fx.Trace) < one.index(fx.HighWatermarkAdvanced)


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
