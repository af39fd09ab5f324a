"""One test per sentence of the KRaft proposals that a replica with static voters must obey.

Each test names its source: KIP-595 (the protocol), KIP-853 (replica keys), KIP-996 (pre-vote),
KIP-1166 (high watermark in Fetch), or the KAFKA issue that settled the point.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from node.core import effects as fx
from node.core import inputs
from node.core.leader.barriers import Barriers
from node.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    VoteRequest,
    VoteResponse,
)
from node.core.parts import CoreParts
from node.core.role_changes import RoleChanges
from node.core.roles import TRANSITIONS, NewEpoch, RoleName
from node.core.types import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft.one import CLUSTER_ID, One, endpoint, log_of, voter_set

DISK_A, DISK_B = UUID(int=0xA), UUID(int=0xB)


# ---------------------------------------------------------------- KIP-595: state on disk


def test_vote_is_on_disk_before_the_response_leaves() -> None:
    """KIP-595, Quorum State: state must be written before the response to a Vote is sent."""
    one = One()
    assert one.vote(2, 1).granted
    assert one.of(fx.PersistElectionState)[-1].state == ElectionState(1, None, ReplicaKey(2))
    replies = [i for i, e in enumerate(one.effects) if isinstance(e, fx.Reply)]
    persists = [i for i, e in enumerate(one.effects) if isinstance(e, fx.PersistElectionState)]
    assert max(persists) < min(replies)


def test_self_vote_is_on_disk_before_any_vote_request_leaves() -> None:
    """KIP-595, Candidate: it votes for itself and persists that before it asks others."""
    one = One()
    one.stand()
    one.grant(2, pre_vote=True)
    assert one.replica.role == "candidate"
    assert one.of(fx.PersistElectionState) == [
        fx.PersistElectionState(ElectionState(1, None, ReplicaKey(1)))
    ]
    assert one.index(fx.PersistElectionState) < one.index(fx.Send)


def test_leadership_is_on_disk_before_the_first_append() -> None:
    """KIP-595, Leader: a restarted leader must know that it led, so that comes first."""
    one = One()
    one.stand()
    one.grant(2, pre_vote=True)
    one.grant(2, pre_vote=False)
    assert one.of(fx.PersistElectionState)[-1].state.leader_id == 1
    assert one.index(fx.PersistElectionState) < one.index(fx.AppendAsLeader)


def test_nothing_is_written_for_a_prospective() -> None:
    """KIP-996: the Prospective state changes neither epoch nor vote."""
    one = One(election=ElectionState(4, None, ReplicaKey(2)))
    one.all.clear()
    one.stand()
    assert one.replica.role == "prospective"
    assert not [e for e in one.all if isinstance(e, fx.PersistElectionState)]
    assert one.replica.last_vote == ReplicaKey(2)


def test_nothing_is_written_on_resigning() -> None:
    """KIP-595, Resigned: the resignation is in memory; the leadership stays on record."""
    one = One()
    epoch = one.lead()
    one.step(inputs.Resign(epoch))
    assert one.replica.role == "resigned"
    assert one.of(fx.PersistElectionState) == []
    assert one.replica.election_state.leader_id == 1


def test_an_unchanged_state_is_not_written_again() -> None:
    """KIP-595, Quorum State: one fsync per change, none for a repeated request."""
    one = One()
    one.vote(2, 1)
    one.vote(2, 1)
    assert one.of(fx.PersistElectionState) == []


# ---------------------------------------------------------------- KIP-595: start-up


def test_a_former_leader_restarts_resigned() -> None:
    """KAFKA-10527: it might have lost unflushed records of that epoch."""
    one = One(election=ElectionState(3, 1, ReplicaKey(1)), log=log_of((3, 0), end=5))
    assert one.replica.role == "resigned"
    assert not one.vote(2, 3, 9, 2).granted


def test_a_former_candidate_restarts_as_candidate_of_that_epoch() -> None:
    """KIP-595, Quorum State: its vote for itself stands, so it may ask again."""
    one = One(election=ElectionState(3, None, ReplicaKey(1)))
    assert (one.replica.role, one.replica.epoch) == ("candidate", 3)
    assert {s.peer for s in one.sends(VoteRequest)} == {2, 3}


def test_a_follower_restarts_as_follower() -> None:
    """KIP-595, Quorum State: it goes on fetching from the leader on record."""
    one = One(election=ElectionState(3, 2))
    assert (one.replica.role, one.replica.leader_id) == ("follower", 2)
    assert [s.peer for s in one.sends(FetchRequest)] == [2]


def test_a_log_newer_than_the_quorum_state_decides_the_epoch() -> None:
    """Kafka QuorumState.initialize: the log has seen an epoch that the file has not."""
    one = One(election=ElectionState(1, 1, ReplicaKey(1)), log=log_of((4, 0), end=2))
    assert (one.replica.role, one.replica.epoch) == ("unattached", 4)
    assert one.replica.last_vote is None


def test_no_high_watermark_is_known_after_a_start() -> None:
    """KIP-595: the high watermark is not persisted; it is learned from the leader."""
    assert One(2, log=log_of((1, 0), end=9)).replica.high_watermark is None


def test_an_unknown_leader_on_record_still_forbids_a_vote() -> None:
    """KIP-595, Vote: a replica that knows a leader of the epoch must not vote in it."""
    one = One(election=ElectionState(3, 9))
    assert one.replica.role == "unattached"
    assert not one.vote(2, 3).granted


# ---------------------------------------------------------------- KIP-595: Vote


def test_an_older_epoch_is_fenced() -> None:
    """KIP-595, Vote: a request of a lower epoch gets FENCED_LEADER_EPOCH."""
    one = One(election=ElectionState(5))
    response = one.vote(2, 4)
    assert response == VoteResponse(Error.FENCED_LEADER_EPOCH, 5, None, granted=False)


def test_a_newer_epoch_moves_the_receiver_and_clears_its_vote() -> None:
    """KIP-595, Vote: on a higher epoch the receiver becomes unattached in that epoch."""
    one = One(election=ElectionState(5, None, ReplicaKey(3)))
    assert one.vote(2, 6).granted
    assert one.replica.election_state == ElectionState(6, None, ReplicaKey(2))


def test_a_leader_steps_down_for_a_newer_epoch() -> None:
    """KIP-595, Leader: it resigns when it learns of a newer epoch."""
    one = One()
    epoch = one.lead()
    one.vote(2, epoch + 1)
    assert one.replica.role == "unattached"
    assert one.of(fx.LeadershipLost) == [fx.LeadershipLost(epoch)]


def test_only_one_vote_per_epoch() -> None:
    """KIP-595, Vote: at most one vote is granted in an epoch."""
    one = One()
    assert one.vote(2, 1).granted
    assert not one.vote(3, 1).granted


def test_the_same_candidate_gets_the_same_vote_again() -> None:
    """KIP-595, Vote: the first answer may have been lost."""
    one = One()
    assert one.vote(2, 1).granted
    assert one.vote(2, 1).granted


@pytest.mark.parametrize(("end", "last_epoch"), [(4, 3), (9, 2)])
def test_the_same_candidate_gets_no_vote_for_a_log_that_has_become_shorter(
    end: int, last_epoch: int
) -> None:
    """Raft, figure 2, RequestVote: who has voted for the candidate looks at its log all the same.

    It may have cut its log at a restart, as after a flipped bit, and stand with its old vote.
    """
    one = One(election=ElectionState(5), log=log_of((3, 0), end=5))
    assert one.vote(2, 6, 5, 3).granted
    assert not one.vote(2, 6, end, last_epoch).granted
    assert one.replica.last_vote == ReplicaKey(2)
    assert one.vote(2, 6, 5, 3).granted


@pytest.mark.parametrize(
    ("end", "last_epoch", "granted"),
    [(5, 3, True), (6, 3, True), (4, 3, False), (9, 2, False), (1, 4, True)],
)
def test_only_a_log_as_new_as_ours_gets_a_vote(end: int, last_epoch: int, granted: bool) -> None:
    """KIP-595, Vote: last epoch first, then end offset (Raft 5.4.1)."""
    one = One(election=ElectionState(5), log=log_of((3, 0), end=5))
    assert one.vote(2, 6, end, last_epoch).granted is granted


def test_no_vote_once_the_leader_is_known() -> None:
    """KIP-595, Vote: a follower rejects votes of its epoch."""
    one = One()
    one.begin(3, 1)
    assert not one.vote(2, 1).granted


def test_a_candidate_refuses_others() -> None:
    """KIP-595, Vote: it has voted for itself."""
    one = One(election=ElectionState(3, None, ReplicaKey(1)))
    assert not one.vote(2, 3).granted


def test_a_vote_restarts_the_election_timer() -> None:
    """KIP-595, Vote: a granted vote gives the candidate time to win."""
    one = One()
    one.wait(900)
    assert one.vote(2, 1).granted
    one.wait(990)
    assert one.replica.role == "unattached"


@pytest.mark.parametrize(
    ("epoch", "end", "last_epoch", "pre"),
    [
        (1, -1, 0, False),
        (1, 0, -1, False),
        (1, 5, 1, False),
        (1, 5, 2, True),
        (2**31, 0, 0, False),
        (-1, 0, 0, False),
        (-1, 0, -1, True),
    ],
)
def test_impossible_votes_are_invalid(epoch: int, end: int, last_epoch: int, pre: bool) -> None:
    """KIP-595, Vote: negative values, or a last epoch that the candidacy cannot have."""
    one = One()
    assert one.vote(2, epoch, end, last_epoch, pre=pre).error is Error.INVALID_REQUEST
    assert one.replica.epoch == 0


def test_a_foreign_cluster_is_refused() -> None:
    """KIP-595: every request carries the cluster id; a different one is refused."""
    one = One()
    assert one.vote(2, 9, cluster_id="other").error is Error.INCONSISTENT_CLUSTER_ID
    assert one.replica.epoch == 0
    assert one.vote(2, 9, cluster_id=CLUSTER_ID).granted


def test_a_vote_addressed_to_another_replica_is_refused() -> None:
    """KIP-853, Vote: VoterId and VoterDirectoryId must be the receiver's."""
    one = One(key=ReplicaKey(1, DISK_A))
    assert one.vote(2, 1, voter=ReplicaKey(1, DISK_B)).error is Error.INVALID_VOTER_KEY
    assert one.vote(2, 1, voter=ReplicaKey(3)).error is Error.INVALID_VOTER_KEY
    assert one.vote(2, 1, voter=ReplicaKey(1, DISK_A)).granted


def test_a_vote_is_for_one_disk() -> None:
    """KIP-853, Vote: a candidate with the same id and another directory is another candidate."""
    one = One()
    key = ReplicaKey(2, DISK_A)
    for candidate, granted in [(key, True), (ReplicaKey(2, DISK_B), False), (key, True)]:
        request = VoteRequest(candidate, 1, OffsetAndEpoch(0, 0), pre_vote=False)
        assert one.ask(request).granted is granted


def test_an_unknown_candidate_may_get_a_vote() -> None:
    """KIP-853, Vote: the receiver's voter set may be behind, so membership is not checked."""
    assert One().vote(99, 1).granted


def test_an_observer_may_vote() -> None:
    """KIP-853, Vote: it may be a voter in the candidate's newer voter set."""
    one = One(7)
    assert one.vote(2, 1).granted
    assert one.replica.role == "unattached"


def test_a_candidate_needs_a_majority() -> None:
    """KIP-595, Candidate: it leads when a majority of the voters has granted its vote."""
    one = One(voters=5)
    one.stand()
    one.grant(2, 3, pre_vote=True)
    one.grant(2, pre_vote=False)
    assert one.replica.role == "candidate"
    one.grant(3, pre_vote=False)
    assert one.replica.role == "leader"
    keys = [(i, None) for i in range(1, 6)]
    told = {"grants": [1, 2, 3], "voters": keys, "es": 0, "quorum_ms": 3000}
    assert one.traces("elected") == [told]


def test_the_same_vote_does_not_count_twice() -> None:
    """KIP-595, Candidate: votes are counted by voter."""
    one = One(voters=5)
    one.stand()
    one.grant(2, 3, pre_vote=True)
    one.grant(2, 2, pre_vote=False)
    assert one.replica.role == "candidate"


def test_a_candidate_that_lost_waits_out_its_timer() -> None:
    """KAFKA-18345: backing off and retrying made candidates move in lock-step."""
    one = One()
    one.stand()
    one.grant(2, pre_vote=True)
    for send in one.sends(VoteRequest):
        one.answer(send, VoteResponse(Error.NONE, 1, None, granted=False))
    assert one.replica.role == "candidate"
    one.wait(950)
    assert one.replica.role == "candidate"
    assert one.sends(VoteRequest) == []
    one.wait(1_100)
    assert (one.replica.role, one.replica.epoch) == ("prospective", 1)


def test_a_candidate_asks_again_who_did_not_answer() -> None:
    """KIP-595, Candidate: it retries until it has an answer or its timer expires."""
    one = One()
    one.stand()
    one.grant(2, pre_vote=True)
    send = one.sent(VoteRequest)
    one.fail(send)
    assert one.sends(VoteRequest) == []
    one.wait(20)
    assert [s.peer for s in one.sends(VoteRequest)] == [send.peer]


def test_a_candidate_follows_a_leader_of_its_epoch() -> None:
    """KIP-595, Candidate: it becomes a follower when another has won."""
    one = One(election=ElectionState(3, None, ReplicaKey(1)))
    assert one.begin(2, 3).error is Error.NONE
    assert (one.replica.role, one.replica.leader_id) == ("follower", 2)
    assert one.replica.last_vote == ReplicaKey(1)


# ---------------------------------------------------------------- KIP-996: pre-vote


def test_a_pre_vote_does_not_raise_the_epoch() -> None:
    """KIP-996: a prospective asks in its present epoch."""
    one = One(election=ElectionState(4))
    one.stand()
    requests = [s.request for s in one.sends(VoteRequest)]
    assert [(r.epoch, r.pre_vote) for r in requests if isinstance(r, VoteRequest)] == [
        (4, True),
        (4, True),
    ]


def test_a_pre_vote_is_never_recorded() -> None:
    """KIP-996: granting a pre-vote changes nothing; several may be granted."""
    one = One(election=ElectionState(4))
    assert one.vote(2, 4, pre=True).granted
    assert one.vote(3, 4, pre=True).granted
    assert one.replica.last_vote is None
    assert one.of(fx.PersistElectionState) == []


def test_a_follower_in_contact_with_its_leader_refuses_pre_votes() -> None:
    """KIP-996: a follower that has fetched from its leader sees no need for an election."""
    one = One()
    one.begin(2, 1)
    assert one.vote(3, 1, pre=True).granted
    one.fetched()
    assert not one.vote(3, 1, pre=True).granted


def test_a_leader_refuses_pre_votes() -> None:
    """KIP-996: there is a leader, it knows that best."""
    one = One()
    epoch = one.lead()
    assert not one.vote(3, epoch, 9, epoch, pre=True).granted


def test_pre_votes_go_only_to_logs_as_new_as_ours() -> None:
    """KIP-996: the same comparison as for a real vote."""
    one = One(election=ElectionState(5), log=log_of((3, 0), end=5))
    assert one.vote(2, 5, 5, 3, pre=True).granted
    assert not one.vote(2, 5, 4, 3, pre=True).granted


def test_a_candidate_and_a_resigned_leader_grant_pre_votes() -> None:
    """KIP-996: neither follows a leader."""
    candidate = One(election=ElectionState(3, None, ReplicaKey(1)))
    resigned = One(election=ElectionState(3, 1, ReplicaKey(1)))
    for one in (candidate, resigned):
        assert one.vote(2, 3, pre=True).granted


def test_a_pre_vote_of_a_newer_epoch_teaches_that_epoch() -> None:
    """KIP-996: the prospective has not raised its epoch, so the receiver is behind."""
    one = One()
    assert one.vote(2, 6, pre=True).granted
    assert one.replica.election_state == ElectionState(6)


def test_a_prospective_that_cannot_win_goes_back_to_its_leader() -> None:
    """KIP-996: it must not be stuck; it follows the last leader again."""
    one = One()
    one.begin(2, 1)
    one.stand()
    for send in one.sends(VoteRequest):
        one.answer(send, VoteResponse(Error.NONE, 1, 2, granted=False))
    assert (one.replica.role, one.replica.leader_id) == ("follower", 2)


def test_a_prospective_without_a_leader_goes_back_to_unattached_with_its_vote() -> None:
    """KIP-996: the vote cast in this epoch must not be forgotten."""
    one = One(election=ElectionState(4, None, ReplicaKey(3)))
    one.stand()
    for send in one.sends(VoteRequest):
        one.answer(send, VoteResponse(Error.NONE, 4, None, granted=False))
    assert one.replica.role == "unattached"
    assert not one.vote(2, 4).granted
    assert one.vote(3, 4).granted


def test_a_prospective_may_vote() -> None:
    """KIP-996: a prospective that has not voted in the epoch may do so, and stays prospective."""
    one = One(election=ElectionState(4))
    one.stand()
    assert one.vote(2, 4).granted
    assert one.replica.role == "prospective"
    assert one.replica.last_vote == ReplicaKey(2)


def test_a_voter_without_pre_vote_lets_the_prospective_stand() -> None:
    """KIP-996, compatibility: UNSUPPORTED_VERSION makes it a candidate."""
    one = One()
    one.stand()
    one.fail(one.sent(VoteRequest), unsupported=True)
    assert (one.replica.role, one.replica.epoch) == ("candidate", 1)


def test_pre_votes_count_of_who_takes_the_asker_for_the_leader() -> None:
    """A leader that lost its vote with its disk: who followed it names it in each answer, for ever.

    Between two voters there would never be a leader again, if such a grant did not count.
    """
    one = One(election=ElectionState(3))
    one.stand()
    one.answer(one.sent(VoteRequest), VoteResponse(Error.NONE, 3, 1, granted=True))
    assert (one.replica.role, one.replica.epoch) == ("candidate", 4)


def test_a_late_answer_to_a_pre_vote_is_no_vote() -> None:
    """KIP-996: answers to an earlier role are not heard any more."""
    one = One(voters=5)
    one.stand()
    late = [s for s in one.sends(VoteRequest) if s.peer in (4, 5)]
    one.grant(2, 3, pre_vote=True)
    assert one.replica.role == "candidate"
    for send in late:
        one.answer(send, VoteResponse(Error.NONE, 1, None, granted=True))
    assert one.replica.role == "candidate"


# ---------------------------------------------------------------- KIP-595: Begin/EndQuorumEpoch


def test_a_new_leader_announces_itself_to_every_voter() -> None:
    """KIP-595, BeginQuorumEpoch: sent to all other voters at once."""
    one = One()
    epoch = one.lead()
    requests = {s.peer: s.request for s in one.sends(BeginQuorumEpochRequest)}
    assert set(requests) == {2, 3}
    assert requests[2] == BeginQuorumEpochRequest(1, epoch, endpoint(1), ReplicaKey(2), CLUSTER_ID)


def test_the_announcement_is_repeated_every_half_fetch_timeout() -> None:
    """KIP-853, BeginQuorumEpoch: also a heartbeat for voters that cannot find the leader."""
    one = One()
    one.lead()
    for send in one.sends(BeginQuorumEpochRequest):
        one.heard(send)
    one.wait(999)
    assert one.sends(BeginQuorumEpochRequest) == []
    one.wait(1)
    assert {s.peer for s in one.sends(BeginQuorumEpochRequest)} == {2, 3}


def test_a_stale_announcement_is_fenced() -> None:
    """KIP-595, BeginQuorumEpoch: an old epoch gets FENCED_LEADER_EPOCH and changes nothing."""
    one = One(election=ElectionState(5))
    assert one.begin(2, 4).error is Error.FENCED_LEADER_EPOCH
    assert (one.replica.role, one.replica.epoch) == ("unattached", 5)


def test_two_leaders_of_one_epoch_are_not_believed() -> None:
    """KIP-595: at most one leader per epoch. A claim alone must not kill a healthy replica."""
    one = One()
    one.begin(2, 1)
    assert one.begin(3, 1).error is Error.INVALID_REQUEST
    assert one.replica.leader_id == 2
    leader = One()
    epoch = leader.lead()
    assert leader.begin(2, epoch).error is Error.INVALID_REQUEST
    assert leader.replica.is_leader


def test_an_announcement_to_another_disk_is_refused_but_heard() -> None:
    """KIP-853, BeginQuorumEpoch: INVALID_VOTER_KEY, after the leader was learned."""
    one = One(key=ReplicaKey(1, DISK_A))
    request = BeginQuorumEpochRequest(2, 1, endpoint(2), ReplicaKey(1, DISK_B))
    assert one.ask(request).error is Error.INVALID_VOTER_KEY
    assert one.replica.leader_id == 2


def test_a_resigning_leader_names_its_successors_by_fetch_offset() -> None:
    """KIP-595, EndQuorumEpoch: preferred successors, most advanced first."""
    one = One()
    epoch = one.lead()
    one.fetch(2, 0)
    one.fetch(3, 1)
    one.step(inputs.Shutdown())
    requests = [s.request for s in one.sends(EndQuorumEpochRequest)]
    assert [r.preferred for r in requests if isinstance(r, EndQuorumEpochRequest)] == [
        (ReplicaKey(3), ReplicaKey(2))
    ] * 2
    assert one.replica.epoch == epoch


def test_a_resigned_leader_repeats_until_it_is_heard() -> None:
    """KIP-595, EndQuorumEpoch: retried until acknowledged."""
    one = One()
    one.lead()
    one.step(inputs.Shutdown())
    first, second = one.sends(EndQuorumEpochRequest)
    one.heard(first)
    one.fail(second)
    one.wait(20)
    assert [s.peer for s in one.sends(EndQuorumEpochRequest)] == [second.peer]


@pytest.mark.parametrize(
    ("preferred", "delay_ms"),
    [((1, 2), 0), ((2, 1), 500), ((2, 3, 1), 500), ((2, 1, 3), 250), ((2, 3), 1000), ((), 1000)],
)
def test_successors_stand_one_after_the_other(preferred: tuple[int, ...], delay_ms: int) -> None:
    """KIP-595, EndQuorumEpoch: the first at once, the others staggered, strangers last."""
    one = One(voters=5)
    one.begin(4, 1)
    one.fetched()
    one.end(4, 1, *preferred)
    if delay_ms:
        one.wait(delay_ms - 1)
        assert one.replica.role == "follower"
        one.wait(1)
    assert one.replica.role == "prospective"


def test_a_resigned_leader_moves_to_the_next_epoch_by_itself() -> None:
    """Kafka 4.1, Resigned: after the election timeout it becomes unattached one epoch later."""
    one = One()
    epoch = one.lead()
    one.step(inputs.Resign(epoch))
    one.wait(2_000)
    assert (one.replica.role, one.replica.epoch) == ("unattached", epoch + 1)


def test_a_leader_that_shuts_down_stays_resigned() -> None:
    """KIP-595, Shutdown: it waits for a successor, not for another turn."""
    one = One()
    epoch = one.lead()
    one.step(inputs.Shutdown())
    one.wait(60_000)
    assert (one.replica.role, one.replica.epoch) == ("resigned", epoch)


def test_resigning_from_another_epoch_does_nothing() -> None:
    """Kafka RaftClient.resign: only the leadership of the named epoch is given up."""
    one = One()
    epoch = one.lead()
    one.step(inputs.Resign(epoch - 1))
    assert one.replica.is_leader


# ---------------------------------------------------------------- clock, table, configuration


def test_a_clock_set_back_neither_stalls_nor_fires_a_timer() -> None:
    """Kafka's timers follow the wall clock and would stall for as long as it was set back."""
    one = One(election=ElectionState(5, 2))
    one.wait(1_000)
    one.wait(-3_600_000)
    assert one.replica.role == "follower"
    deadline_ms = one.replica.next_deadline_ms()
    assert deadline_ms is not None
    assert 0 <= deadline_ms - one.now_ms <= 1_000
    one.wait(1_000)
    assert one.replica.role == "prospective"


def test_an_illegal_transition_is_fatal() -> None:
    """Kafka QuorumState: what the table does not allow must not go on."""

    class Broken(Barriers):
        def on_read_barrier(self, barrier: inputs.ReadBarrier) -> None:
            RoleChanges(self._state).become_candidate(f"barrier {barrier.token}")

    one = One(core=CoreParts(barriers=Broken))
    one.lead()
    one.step(inputs.ReadBarrier(1))
    (fatal,) = one.of(fx.Fatal)
    assert "leader of epoch 1 must not become candidate of epoch 2" in fatal.reason
    assert one.of(fx.PersistElectionState) == []
    assert one.vote(2, 9) is None


def test_a_leader_never_changes_role_within_its_epoch_but_to_resigned() -> None:
    """KIP-595, Leader: it leads until it resigns or hears of a newer epoch."""
    same = {to for (old, to), rule in TRANSITIONS.items() if old == "leader" and rule.allows(5, 5)}
    assert same == {RoleName.RESIGNED}


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (NewEpoch.SAME, {5}),
        (NewEpoch.NEXT, {6}),
        (NewEpoch.LATER, {6, 7}),
        (NewEpoch.NOT_EARLIER, {5, 6, 7}),
    ],
)
def test_how_epochs_may_follow(rule: NewEpoch, allowed: set[int]) -> None:
    """No rule lets an epoch fall."""
    assert {new for new in range(3, 8) if rule.allows(5, new)} == allowed


def test_every_role_can_be_left_for_a_newer_epoch() -> None:
    """KIP-595: any role yields to a newer epoch, with or without a leader."""
    for role in RoleName:
        for to in (RoleName.UNATTACHED, RoleName.FOLLOWER):
            assert TRANSITIONS[role, to].allows(5, 9)


@pytest.mark.parametrize(
    "config",
    [{"election_timeout_ms": 0}, {"fetch_timeout_ms": -5}, {"retry_backoff_ms": 0}],
    ids=str,
)
def test_impossible_timers_are_refused(config: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(config))):
        One(**config)  # type: ignore[arg-type]


def test_a_voter_set_counts_majorities() -> None:
    """KIP-595: floor(n / 2) + 1."""
    assert [voter_set(n).majority for n in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]
