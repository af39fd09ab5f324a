"""One test per sentence of the KRaft proposals about following, and about responses in general."""

from __future__ import annotations

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.config import LogState
from node.core.messages import (
    BeginQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    QuorumEpochResponse,
)
from node.core.types import ElectionState, Endpoint, OffsetAndEpoch, ReplicaKey
from tests.support.raft.one import CLUSTER_ID, One, batch, endpoint, log_of

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


def test_an_observer_asks_a_leader_again_that_was_silent_and_is_no_bootstrap_server() -> None:
    """Or it would ask who leads for ever, and be told what it knows already."""
    one = One(9, bootstrap=(endpoint(1),))
    one.begin(2, 1)
    one.wait(100_000)
    one.fail(one.sent(FetchRequest))
    asked: list[Endpoint] = []
    while endpoint(2) not in asked[-1:] and len(asked) < 50:
        one.wait(20)
        send = one.sent(FetchRequest)
        asked.append(send.endpoint)
        if send.endpoint == endpoint(1):
            refused = Error.NOT_LEADER_OR_FOLLOWER
            one.answer(send, FetchResponse(refused, 1, 2, leader_endpoint=endpoint(2)))
    one.fetched(batch(0, 0, 1), hwm=1)
    assert set(asked) == {endpoint(1), endpoint(2)}
    assert one.replica.high_watermark == 1


def test_records_that_come_with_the_news_of_a_leader_are_used() -> None:
    """KIP-595, Fetch: an unattached replica asked the leader itself, so it follows and appends."""
    one = One(election=ElectionState(5), bootstrap=(endpoint(2),))
    one.fetched(batch(0, 1, 5), leader=2, hwm=1)
    assert (one.replica.role, one.replica.leader_id) == ("follower", 2)
    assert one.replica.log_end_offset == 2
    assert one.of(fx.HighWatermarkAdvanced) == [fx.HighWatermarkAdvanced(1)]


def test_a_deposed_leader_fetches_only_when_its_own_records_are_on_disk() -> None:
    """KIP-595: its fetch offset promises them, too."""
    one = One(auto_flush=False)
    epoch = one.lead()
    one.propose(2)
    one.begin(2, epoch + 1)
    assert one.replica.role == "follower"
    assert one.sends(FetchRequest) == []
    one.step(inputs.LogFlushed(1))
    assert one.sends(FetchRequest) == []
    one.step(inputs.LogFlushed(3))
    assert [s.peer for s in one.sends(FetchRequest)] == [2]


def test_a_restarted_voter_flushes_what_it_finds_before_it_fetches() -> None:
    """KAFKA-10533: after a mere process crash the tail may be in the page cache only."""
    log = LogState(0, 9, 6, ((1, 0),))
    one = One(election=ElectionState(5, 2), log=log, auto_flush=False)
    assert one.of(fx.FlushLog) == [fx.FlushLog(9)]
    assert one.sends(FetchRequest) == []
    one.step(inputs.LogFlushed(9))
    assert len(one.sends(FetchRequest)) == 1


def test_a_change_of_role_resets_busy_connections() -> None:
    """Kafka RequestManager: answers to an earlier role are not heard any more."""
    one = follower()
    fetch = one.sent(FetchRequest)
    one.begin(3, 6)
    assert len(one.of(fx.ResetConnections)) == 1
    assert one.index(fx.ResetConnections) < one.index(fx.Send)
    one.answer(fetch, FetchResponse(Error.NONE, 6, 3, batches=(batch(0, 0, 5),)))
    assert one.replica.log_end_offset == 0


def test_a_follower_that_is_told_to_stop_wants_nothing_any_more() -> None:
    """KIP-595, Shutdown: it still answers, but neither fetches nor stands."""
    one = follower()
    one.step(inputs.Shutdown())
    one.fetched(batch(0, 0, 5))
    one.wait(60_000)
    assert one.of(fx.Send) == []
    assert one.replica.next_deadline_ms() is None
    assert one.vote(3, 6, 9, 5).granted


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
