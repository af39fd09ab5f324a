"""What is refused, told and waited out: sentences of the KRaft proposals about answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.config import LogState
from node.core.leader.voters.rules import LISTENER_TEXT_MAX, LISTENERS_MAX
from node.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    QuorumEpochResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from node.core.own_log import directory
from node.core.types import (
    KRAFT_VERSIONS,
    STATIC_ONLY,
    ElectionState,
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    VoterSet,
)
from tests.support.raft.one import (
    CLUSTER_ID,
    One,
    batch,
    endpoint,
    key,
    keyed_voter,
    keyed_voters,
    listeners,
    log_of,
)

START = OffsetAndEpoch(0, 0)


def follower(**more: Any) -> One:
    """Replica 1 of three, following 2 in epoch 5."""
    one = One(election=ElectionState(5, 2), **more)
    assert one.replica.role == "follower"
    return one


# ---------------------------------------------------------------- requests that are refused


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
@pytest.mark.parametrize(
    ("leader", "epoch", "cluster", "error"),
    [
        (2, 5, CLUSTER_ID, Error.NONE),
        (2, 5, None, Error.NONE),
        (2, 5, "other", Error.INCONSISTENT_CLUSTER_ID),
        (2, 4, CLUSTER_ID, Error.FENCED_LEADER_EPOCH),
        (-1, 5, CLUSTER_ID, Error.INVALID_REQUEST),
        (1, 6, CLUSTER_ID, Error.INVALID_REQUEST),  # nobody else tells it that it leads
        (3, 5, CLUSTER_ID, Error.INVALID_REQUEST),
    ],
)
def test_a_leaders_word_is_answered_with_what_is_known(
    kind: type, leader: int, epoch: int, cluster: str | None, error: Error
) -> None:
    """KIP-595, BeginQuorumEpoch and EndQuorumEpoch: the errors, and who leads which epoch."""
    one = follower()
    fields: dict[str, Any] = {"leader_endpoint": endpoint(2), "cluster_id": cluster}
    if kind is EndQuorumEpochRequest:
        fields["preferred"] = (ReplicaKey(1),)
    response = one.ask(kind(leader, epoch, **fields))
    assert response == QuorumEpochResponse(error, 5, 2, endpoint(2))
    stands = kind is EndQuorumEpochRequest and error is Error.NONE
    assert one.replica.role == ("prospective" if stands else "follower")
    assert one.replica.epoch == 5


def test_a_candidate_without_an_id_gets_no_vote() -> None:
    """Kafka 4.1, validateVoterOnlyRequest: INVALID_REQUEST."""
    one = One()
    assert one.vote(-1, 3).error is Error.INVALID_REQUEST
    assert one.replica.epoch == 0


def test_an_older_epoch_is_fenced_before_anybody_asks_to_whom_it_was_sent() -> None:
    """Kafka 4.1, handleVoteRequest: the order of errors."""
    one = One(election=ElectionState(5))
    assert one.vote(2, 4, voter=ReplicaKey(3)).error is Error.FENCED_LEADER_EPOCH


def test_every_refusal_is_traced() -> None:
    """KRaft S31: from outside it can be seen who was refused what, and why."""
    one = follower()
    old: dict[str, Any] = {"cluster_id": CLUSTER_ID}
    requests: dict[str, Request] = {
        "Vote": VoteRequest(ReplicaKey(3), 4, START, pre_vote=False, **old),
        "BeginQuorumEpoch": BeginQuorumEpochRequest(3, 4, endpoint(3), **old),
        "EndQuorumEpoch": EndQuorumEpochRequest(3, 4, (), endpoint(3), **old),
        "Fetch": FetchRequest(ReplicaKey(3), 4, 0, 0, 0, 1, **old),
        "FetchSnapshot": FetchSnapshotRequest(ReplicaKey(3), 4, START, 0, 1, **old),
        "UpdateVoter": UpdateVoterRequest(key(3), 4, listeners(3), KRAFT_VERSIONS, **old),
    }
    more: dict[str, dict[str, Any]] = {
        "FetchSnapshot": {"snap": (0, 0), "pos": 0},
        "UpdateVoter": {"peer_dir": directory(key(3))},
    }
    for api, request in requests.items():
        assert one.ask(request).error is Error.FENCED_LEADER_EPOCH
        told = {"api": api, "peer": 3, "req_ep": 4, "code": 74, **more.get(api, {})}
        assert one.traces("rpc_err") == [told]
    refused: dict[str, Request] = {
        "RemoveVoter": RemoveVoterRequest(key(3), **old),
        "UpdateVoter": UpdateVoterRequest(key(3), 5, listeners(3), KRAFT_VERSIONS, **old),
    }
    for api, request in refused.items():
        assert one.ask(request).error is Error.NOT_LEADER_OR_FOLLOWER
        told = {"api": api, "peer": 3, "req_ep": 5, "code": 6, **more["UpdateVoter"]}
        assert one.traces("rpc_err") == [told]


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_every_acceptance_is_traced(kind: type) -> None:
    """KRaft S31: from outside it can be seen what was acted upon, and what it claimed."""
    one = follower()
    fields: dict[str, Any] = {"leader_endpoint": endpoint(2), "cluster_id": CLUSTER_ID}
    if kind is EndQuorumEpochRequest:
        fields["preferred"] = ()
    assert one.ask(kind(2, 6, **fields)).error is Error.NONE
    api = kind.__name__.removesuffix("Request")
    (told,) = one.traces("rpc_ok")
    order = {"preferred": [], "wait_ms": 1000, "backoff_ms": 1000} if "preferred" in fields else {}
    assert told == {"api": api, "peer": 2, "peer_dir": None, "req_ep": 6, **order}
    assert one.ask(kind(2, 5, **fields)).error is Error.FENCED_LEADER_EPOCH
    assert one.traces("rpc_ok") == []


@pytest.mark.parametrize(("cluster", "foreign"), [(CLUSTER_ID, {}), (None, {}), ("other", True)])
def test_the_cluster_that_a_request_names_is_traced_if_it_is_another(
    cluster: str | None, foreign: Any
) -> None:
    one = follower()
    one.ask(FetchRequest(ReplicaKey(3), 5, 0, 0, 0, 1, cluster_id=cluster))
    (told,) = one.traces("fetch_rx")
    assert (told["req_ep"], told.get("foreign", {})) == (5, foreign)


@pytest.mark.parametrize(("cluster", "foreign"), [("other", True), (CLUSTER_ID, None)])
def test_a_refusal_for_another_cluster_says_what_the_request_names(
    cluster: str, foreign: bool | None
) -> None:
    """S38: a request of this very cluster that is refused so would be told as not foreign."""
    one = follower()
    one.ask(FetchRequest(ReplicaKey(3), 4, 0, 0, 0, 1, cluster_id=cluster))
    (told,) = one.traces("rpc_err")
    assert (told["code"] == 104, told.get("foreign")) == (bool(foreign), foreign)


def test_it_is_traced_for_whom_a_request_says_that_it_is() -> None:
    one = follower()
    other = key(3)
    one.vote(3, 6, voter=other)
    address = (3, directory(other))
    assert [each["voter"] for each in one.traces("vote")] == [address]
    one.ask(BeginQuorumEpochRequest(2, 6, endpoint(2), other, CLUSTER_ID))
    (told,) = one.traces("rpc_err")
    assert (told["code"], told["voter"]) == (125, address)


# ---------------------------------------------------------------- what leaves a trace


def test_an_election_is_traced_from_the_question_to_the_answer() -> None:
    """KRaft S2, S3, S6: votes asked for and given, each after what was written for it."""
    one = One()
    one.stand()
    assert one.traces("votereq") == [{"pre": True, "to": 2}, {"pre": True, "to": 3}]
    one.grant(2, pre_vote=True)
    kinds = [e.type for e in one.of(fx.Trace)]
    assert kinds.index("qs") < kinds.index("role") < kinds.index("votereq")
    assert one.traces("votereq") == [{"pre": False, "to": 2}, {"pre": False, "to": 3}]
    assert one.traces("qs") == [{"leader": None, "voted": 1, "voted_dir": None}]

    other = One()
    other.vote(2, 7, 4, 6)
    (vote,) = other.traces("vote")
    assert (vote["pre"], vote["ok"], vote["cand"], vote["err"]) == (False, True, 2, 0)
    assert (vote["cl_ep"], vote["cl_leo"], vote["my_ep"], vote["my_leo"]) == (6, 4, 0, 0)
    kinds = [e.type for e in other.of(fx.Trace)]
    assert kinds == ["qs", "role", "qs", "vote", "fetch_tx"]  # the epoch, then the vote
    assert other.traces("role")[0] | {"why": ""} == {
        "from": "unattached",
        "to": "unattached",
        "leader": None,
        "voted": None,
        "voted_dir": None,
        "why": "",
        "by": "VoteRequest",
    }


# ---------------------------------------------------------------- what answers teach


def test_a_newer_epoch_without_a_leader_makes_a_follower_unattached() -> None:
    """KIP-595: whoever hears of a newer epoch moves to it."""
    one = follower()
    one.answer(one.sent(FetchRequest), FetchResponse(Error.FENCED_LEADER_EPOCH, 6, None))
    assert (one.replica.role, one.replica.epoch) == ("unattached", 6)
    assert one.vote(3, 6).granted


def test_a_leader_whose_place_is_not_known_is_remembered_and_followed_when_it_is() -> None:
    """KIP-853: Unattached with a leader's id, which refuses real votes of that epoch."""
    one = follower()
    one.answer(one.sent(FetchRequest), FetchResponse(Error.FENCED_LEADER_EPOCH, 6, 9))
    assert (one.replica.role, one.replica.epoch, one.replica.leader_id) == ("unattached", 6, 9)
    assert one.replica.election_state == ElectionState(6, 9, None)
    assert not one.vote(3, 6).granted
    assert one.begin(9, 6).error is Error.NONE
    assert (one.replica.role, one.replica.leader_endpoint) == ("follower", endpoint(9))


def test_the_same_leader_at_the_same_place_is_no_news() -> None:
    """Kafka 4.1: only more endpoints make a follower a follower of that epoch again."""
    one = follower()
    assert one.begin(2, 5).error is Error.NONE
    assert one.traces("role") == []
    assert one.of(fx.ResetConnections) == []


# ---------------------------------------------------------------- what is waited out


@pytest.mark.parametrize(
    "error", [Error.BROKER_NOT_AVAILABLE, Error.UNKNOWN_SERVER_ERROR, Error.INVALID_REQUEST]
)
def test_a_fetch_that_is_refused_is_sent_again_after_the_backoff(error: Error) -> None:
    """KIP-595: BROKER_NOT_AVAILABLE of a leader that is stopping; nothing else changes by it."""
    one = follower()
    one.fetched(error=error)
    assert one.of(fx.Send) == []
    one.wait(19)
    assert one.of(fx.Send) == []
    one.wait(1)
    assert [s.peer for s in one.sends(FetchRequest)] == [2]
    assert (one.replica.role, one.replica.epoch) == ("follower", 5)


@pytest.mark.parametrize(
    "diverging", [OffsetAndEpoch(-1, 3), OffsetAndEpoch(3, -1)], ids=["offset", "epoch"]
)
def test_a_senseless_divergence_is_waited_out(diverging: OffsetAndEpoch) -> None:
    one = follower(log=log_of((1, 0), end=9))
    one.fetched(diverging=diverging)
    assert one.replica.log_end_offset == 9
    assert one.of(fx.Send) == []
    assert one.of(fx.Fatal) == []


def test_a_divergence_below_the_high_watermark_is_fatal_wherever_one_would_cut() -> None:
    """KIP-595: the leader lacks what is committed; KAFKA-12460."""
    one = follower(log=log_of((1, 0), (3, 4), end=9))
    one.fetched(hwm=3)
    one.fetched(diverging=OffsetAndEpoch(2, 2))  # our epoch 1 ends at 4
    assert len(one.of(fx.Fatal)) == 1


def test_a_voter_that_refuses_for_another_reason_is_asked_again_later() -> None:
    """KIP-853: INVALID_VOTER_KEY is no vote; the voter may still come to know itself."""
    one = One()
    one.stand()
    ask = next(s for s in one.sends(VoteRequest) if s.peer == 2)
    one.answer(ask, VoteResponse(Error.INVALID_VOTER_KEY, 0, None, granted=False))
    assert one.of(fx.Send) == []
    one.wait(20)
    assert [s.peer for s in one.sends(VoteRequest)] == [2]


def test_an_announcement_that_fails_is_repeated_after_the_backoff() -> None:
    """KIP-595, BeginQuorumEpoch: until it is heard."""
    one = One()
    one.lead()
    (send,) = [s for s in one.sends(BeginQuorumEpochRequest) if s.peer == 2]
    one.heard(send, Error.UNKNOWN_SERVER_ERROR)
    assert one.of(fx.Send) == []
    one.wait(20)
    assert [s.peer for s in one.sends(BeginQuorumEpochRequest)] == [2]
    one.heard(one.sent(BeginQuorumEpochRequest), Error.INVALID_VOTER_KEY)  # heard nevertheless
    one.wait(20)
    assert one.sends(BeginQuorumEpochRequest) == []


def test_one_fetch_is_in_flight_however_many_could_be_asked() -> None:
    """Kafka 4.x: one that hangs at a bootstrap server keeps all others back."""
    one = One(bootstrap=tuple(endpoint(i) for i in (1, 2, 3)))
    assert len(one.sends(FetchRequest)) == 1
    one.begin(3, 1)  # a change of role forgets it
    one.fail(one.sent(FetchRequest))
    one.wait(20)
    one.fail(one.sent(FetchRequest))
    (hanging,) = one.sends(FetchRequest)
    assert hanging.peer < 0
    for _ in range(50):
        one.wait(20)
        assert one.sends(FetchRequest) == []
    assert one.replica.role == "follower"


# ---------------------------------------------------------------- a voter alone


def test_a_lone_voter_that_resigned_leads_the_next_epoch_at_once() -> None:
    """KIP-595: there is nobody to wait for."""
    one = One(voters=1)
    epoch = one.replica.epoch
    one.step(inputs.Resign(epoch))
    assert (one.replica.role, one.replica.epoch) == ("leader", epoch + 1)
    assert [e.state.leader_id for e in one.of(fx.PersistElectionState)] == [None, 1]


def test_a_lone_voter_that_stops_stays_resigned() -> None:
    """KIP-595, EndQuorumEpoch: it leads no more, whatever time goes by."""
    one = One(voters=1)
    one.step(inputs.Shutdown())
    one.wait(60_000)
    assert one.replica.role == "resigned"
    assert one.of(fx.Send) == []


# ---------------------------------------------------------------- leading


def dynamic_leader(voters: int, **more: Any) -> One:
    """A leader whose first records all voters have."""
    one = One.dynamic(voters=voters, **more)
    one.lead()
    for voter in range(2, voters + 1):
        one.fetch(voter, one.replica.log_end_offset)
    assert one.replica.high_watermark == one.replica.log_end_offset
    return one


def test_a_fetch_that_would_not_wait_is_answered_at_once() -> None:
    """KIP-595, Fetch: MaxWaitMs 0."""
    one = One()
    one.lead()
    response = one.fetch(2, one.replica.log_end_offset, wait_ms=0)
    assert response is not None
    assert (response.error, response.records) == (Error.NONE, None)


def test_what_a_fetch_reads_has_the_smaller_of_two_limits() -> None:
    """KIP-595, Fetch: the fetcher's MaxBytes, and the leader's own."""
    for own, want in ((500, 500), (5_000, 1_000)):
        one = One(fetch_max_bytes=own)
        one.lead()
        response = one.fetch(2, 0)
        assert response is not None
        assert response.records is not None
        assert response.records.max_bytes == want


def test_the_new_voters_wake_who_waits_for_records() -> None:
    """KIP-853: a voter set is in force at once, so it must not wait for the next fetch."""
    one = dynamic_leader(3)
    end = one.replica.log_end_offset
    assert one.fetch(2, end, hwm=end) is None
    waiting = one.token
    one.auto_flush = False
    assert one.ask(RemoveVoterRequest(key(3))) is None
    (reply,) = [e for e in one.of(fx.Reply) if e.token == waiting]
    assert isinstance(reply.response, FetchResponse)
    assert reply.response.records is not None
    assert reply.response.records.offset == end


def test_what_a_removed_voter_fetched_before_restarts_no_timer_later() -> None:
    """KIP-853: of four voters two others must be heard of, since the last time and still voters."""
    one = One.dynamic(voters=5)
    one.lead()
    end = one.replica.log_end_offset
    for voter in (3, 4):
        one.fetch(voter, end)  # commits, and restarts the timer: nobody is heard of since
    one.wait(2_500)
    one.fetch(2, end)
    one.ask(RemoveVoterRequest(key(2)))
    one.fetch(3, end)  # the only one that counts
    one.wait(600)
    assert one.replica.role == "resigned"


@pytest.mark.parametrize("versions", [KRAFT_VERSIONS, STATIC_ONLY])
def test_a_leader_that_supports_other_versions_writes_its_entry(versions: Any) -> None:
    """KIP-853: its own entry of the set, which the last one wrote, is what it was then."""
    old = dataclasses.replace(keyed_voter(1), kraft_versions=versions)
    before = VoterSet.of(old, *(v for v in keyed_voters(2, 3)))
    log = LogState(
        0, 3, 3, ((1, 0),), voters=((2, before),), kraft_versions=((1, 1),)
    )  # not only in the bootstrap snapshot
    one = One.dynamic(log=log)
    one.lead()
    written = [e.voters for e in one.of(fx.VotersChanged)]
    assert written == ([] if versions == KRAFT_VERSIONS else [keyed_voters(1, 2, 3)])


def test_who_is_always_one_fetch_behind_was_caught_up_at_the_fetch_before() -> None:
    """KIP-836: level with the log as it was at the last fetch is level at that time."""
    one = One()
    one.lead()
    one.fetch(9, 0, wait_ms=0)
    began_ms = one.now_ms

    def caught_up_ms() -> int | None:
        (observer,) = one.ask(DescribeQuorumRequest()).observers
        return observer.last_caught_up_ms  # type: ignore[no-any-return]

    assert caught_up_ms() is None
    end = one.replica.log_end_offset
    one.propose(1)
    one.wait(50)
    one.fetch(9, end - 1, 0, wait_ms=0)
    assert caught_up_ms() is None
    one.propose(1)
    one.wait(50)
    one.fetch(9, end + 1, wait_ms=0)
    assert caught_up_ms() == began_ms + 50
    one.wait(50)
    one.fetch(9, end + 2, wait_ms=0)
    assert caught_up_ms() == began_ms + 150


def test_a_change_under_way_is_said_before_who_is_a_voter_already() -> None:
    """KIP-853: the order of errors; a client tries again after REQUEST_TIMED_OUT."""
    one = dynamic_leader(3)
    one.ask(RemoveVoterRequest(key(3)))
    again = one.ask(AddVoterRequest(key(2), listeners(2), 1_000))
    assert again.error is Error.REQUEST_TIMED_OUT
    assert one.ask(RemoveVoterRequest(key(9))).error is Error.REQUEST_TIMED_OUT


MANY = tuple(Listener(f"L{n}", endpoint(2)) for n in range(LISTENERS_MAX))


@pytest.mark.parametrize(
    "others",
    [
        MANY,
        (Listener("L" * (LISTENER_TEXT_MAX + 1), endpoint(2)),),
        (Listener("L", Endpoint("h" * (LISTENER_TEXT_MAX + 1), 1)),),
    ],
    ids=["too many", "a long name", "a long host"],
)
def test_listeners_that_a_voters_record_has_no_room_for_are_refused(
    others: tuple[Listener, ...],
) -> None:
    """Anybody may ask for it, and a leader that cannot write its record is dead."""
    wanted = (*listeners(2), *others)
    one = dynamic_leader(3)
    update = UpdateVoterRequest(key(2), one.replica.epoch, wanted, KRAFT_VERSIONS, CLUSTER_ID)
    assert one.ask(update).error is Error.INVALID_REQUEST
    addition = AddVoterRequest(key(4), wanted, 1_000, CLUSTER_ID)
    assert one.ask(addition).error is Error.INVALID_REQUEST
    assert one.of(fx.Send) == []
    fits = dataclasses.replace(update, listeners=(*listeners(2), *MANY[1:]))
    assert one.ask(fits).error is Error.NONE


def test_a_replica_that_has_nothing_in_common_is_cut_to_nothing() -> None:
    """KIP-595, Fetch: where not even the first epoch is shared; epoch 0 has no records."""
    one = follower(log=log_of((2, 0), end=4))
    one.fetched(diverging=OffsetAndEpoch(0, 0))
    assert one.replica.log_end_offset == 0
    one.fetched(batch(0, 1, 3))
    assert one.replica.log_end_offset == 2
